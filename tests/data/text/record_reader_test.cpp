#include "data/text/record_reader.h"

#include <zlib.h>

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

struct Read {
  std::vector<std::string> documents;
  TextCounts counts;
};

Read read_all(const std::vector<fs::path>& files, RecordOptions options) {
  RecordReader reader(files, options);
  Read read;
  std::string text;
  for (RawRecord record; reader.next(record);) {
    const std::string name = files[static_cast<size_t>(record.file)].string();
    if (document_of(record, options, name, text, read.counts)) read.documents.push_back(text);
  }
  read.counts.byte_order_marks = reader.byte_order_marks();
  return read;
}

void write_gzip(const fs::path& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}
using Documents = std::vector<std::string>;

// Twelve awkward records, one per line: empty first, byte order mark, CR LF, a lone 0xFF, NUL, two empties in a row,
// white space alone, U+2028, 3 MB, and a cut 3-byte character at the end of a file without a last line end.
std::string awkward_corpus() {
  std::string text = "\xEF\xBB\xBF\n";
  text += "carriage\r\n";
  text += "lone \xFF byte\n";
  text += std::string("nul\0inside\n", 11);
  text += "\n\n";
  text += " \t \n";
  text += "line\xE2\x80\xA8separator\n";
  text += std::string(3000000, 'x') + "\n";
  text += "\r\n";
  text += "plain\n";
  text += "cut \xE2\x82";
  return text;
}

TEST(RecordReader, FollowsThePolicyAndCountsEachClass) {
  const TemporaryDirectory directory;
  write_text(directory / "a.txt", awkward_corpus());
  RecordOptions options;
  options.separator = Separator::kLine;
  const Read read = read_all({directory / "a.txt"}, options);
  EXPECT_EQ(read.documents, (Documents{"carriage", "lone \xEF\xBF\xBD byte", "nulinside", "line\xE2\x80\xA8separator",
                                       std::string(3000000, 'x'), "plain", "cut \xEF\xBF\xBD"}));
  EXPECT_EQ(read.counts.records, 12);
  EXPECT_EQ(read.counts.kept, 7);
  EXPECT_EQ(read.counts.empty, 4);
  EXPECT_EQ(read.counts.blank, 1);
  EXPECT_EQ(read.counts.byte_order_marks, 1);
  EXPECT_EQ(read.counts.nul_bytes, 1);
  EXPECT_EQ(read.counts.crlf, 2);
  EXPECT_EQ(read.counts.invalid_parts, 2);
  EXPECT_EQ(read.counts.line_separators, 1);
  EXPECT_NE(read.counts.report().find("invalid UTF-8 parts"), std::string::npos);
}

TEST(RecordReader, BlockSizeChangesNothing) {
  const TemporaryDirectory directory;
  std::string text = awkward_corpus();
  text.erase(text.find("xxxx"), 2999000);
  write_text(directory / "a.txt", text);
  write_gzip(directory / "a.txt.gz", text);
  for (const Separator separator : {Separator::kLine, Separator::kBlankLines, Separator::kFile}) {
    RecordOptions options;
    options.separator = separator;
    const Read expected = read_all({directory / "a.txt"}, options);
    for (const int64_t block : {1, 2, 3, 4096}) {
      options.block_bytes = block;
      for (const char* name : {"a.txt", "a.txt.gz"}) {
        const Read read = read_all({directory / name}, options);
        EXPECT_EQ(read.documents, expected.documents) << name << " block " << block;
        EXPECT_EQ(read.counts, expected.counts) << name << " block " << block;
      }
    }
  }
}

TEST(RecordReader, BlankLinesSeparateWhateverTheirLineEnd) {
  const TemporaryDirectory directory;
  write_text(directory / "lf.txt", "\n\none\ntwo\n \t\n\nthree\n\n");
  write_text(directory / "crlf.txt", "\r\n\r\none\r\ntwo\r\n \t\r\n\r\nthree\r\n\r\n");
  for (const char* name : {"lf.txt", "crlf.txt"}) {
    EXPECT_EQ(read_all({directory / name}, {}).documents, (Documents{"one\ntwo", "three"})) << name;
  }
}

TEST(RecordReader, WholeFilesStayAsTheyAre) {
  const TemporaryDirectory directory;
  write_text(directory / "a.txt", "one\n\ntwo\n");
  write_text(directory / "empty.txt", "");
  RecordOptions options;
  options.separator = Separator::kFile;
  const Read read = read_all({directory / "a.txt", directory / "empty.txt", directory / "a.txt"}, options);
  EXPECT_EQ(read.documents, (Documents{"one\n\ntwo\n", "one\n\ntwo\n"}));
  EXPECT_EQ(read.counts.empty, 1);
}

TEST(RecordReader, JsonLinesGiveTheirText) {
  const TemporaryDirectory directory;
  write_text(directory / "a.jsonl",
             "{\"text\": \"one\\r\\ntwo\", \"id\": 1}\r\n\n{\"text\": \"\"}\n{\"id\": 2, \"text\": "
             "\"\\u0000x\"}\n{\"text\": \"  \"}");
  const Read read = read_all({directory / "a.jsonl"}, {});
  EXPECT_EQ(read.documents, (Documents{"one\ntwo", "x"}));
  EXPECT_EQ(read.counts.empty, 2);
  EXPECT_EQ(read.counts.blank, 1);
  EXPECT_EQ(read.counts.nul_bytes, 1);
}

TEST(RecordReader, NamesFileAndLineOfBadJson) {
  const TemporaryDirectory directory;
  for (const char* bad : {"not json", "[1]", "{\"txt\": \"a\"}", "{\"text\": 5}", "{\"text\": \"a\""}) {
    write_text(directory / "a.jsonl", std::string("{\"text\": \"good\"}\n") + bad + "\n");
    const auto message = user_error_of([&] { read_all({directory / "a.jsonl"}, {}); });
    EXPECT_NE(message.find("a.jsonl: line 2"), std::string::npos) << message;
  }
}

TEST(RecordReader, RefusesWhatIsNoTextFile) {
  const TemporaryDirectory directory;
  write_text(directory / "utf16.txt", "\xFF\xFEh\0");
  write_text(directory / "fake.gz", "plain text");
  write_gzip(directory / "cut.gz", std::string(100000, 'a') + "b");
  fs::resize_file(directory / "cut.gz", fs::file_size(directory / "cut.gz") - 9);
  fs::create_directory(directory / "folder");
  for (const char* name : {"utf16.txt", "fake.gz", "cut.gz", "folder", "missing.txt"}) {
    const auto message = user_error_of([&] { read_all({directory / name}, {}); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace longhaul
