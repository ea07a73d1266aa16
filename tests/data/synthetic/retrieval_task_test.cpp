#include "data/synthetic/retrieval_task.h"

#include <map>
#include <set>

#include "data/tokenizers/word_tokenizer.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

/// A document taken apart, every rule of the task checked on the way.
struct Parsed {
  std::map<int32_t, int32_t> pairs;
  std::vector<int32_t> noise, asked;
};

Parsed parse(const RetrievalDocument& document, const RetrievalOptions& options) {
  const auto symbols = static_cast<int32_t>(options.vocabulary);
  const auto& ids = document.ids;
  EXPECT_EQ(static_cast<int64_t>(ids.size()), options.length);
  EXPECT_EQ(document.answers.size(), ids.size());
  Parsed parsed;
  size_t t = 0;
  for (; ids.at(t) == symbols; t += 3) {
    EXPECT_LT(ids.at(t + 1), symbols);
    EXPECT_LT(ids.at(t + 2), symbols);
    EXPECT_TRUE(parsed.pairs.emplace(ids[t + 1], ids[t + 2]).second) << "key " << ids[t + 1] << " twice";
  }
  for (; ids.at(t) < symbols; ++t) parsed.noise.push_back(ids[t]);
  std::set<size_t> targets;
  for (; ids.at(t) == symbols + 1; t += 3) {
    EXPECT_EQ(parsed.pairs.at(ids.at(t + 1)), ids.at(t + 2));
    parsed.asked.push_back(ids[t + 1]);
    targets.insert(t + 2);
  }
  for (; t < ids.size(); ++t) EXPECT_EQ(ids[t], symbols + 2);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(document.answers[i], targets.count(i)) << "token " << i;
    const size_t noise_begin = 3 * parsed.pairs.size(), noise_end = noise_begin + parsed.noise.size();
    const bool counted = options.pattern == NoisePattern::kCounting && i > noise_begin && i < noise_end;
    const bool padding = i > 0 && ids[i - 1] == symbols + 2;
    EXPECT_EQ(document.predictable[i], targets.count(i) > 0 || counted || padding) << "token " << i;
  }
  return parsed;
}

void expect_in(size_t count, const CountRange& range) {
  EXPECT_GE(static_cast<int64_t>(count), range.least);
  EXPECT_LE(static_cast<int64_t>(count), range.most);
}

TEST(RetrievalTask, DocumentsFollowTheGrammar) {
  RetrievalOptions hard;
  hard.vocabulary = 40;
  hard.pairs = {30, 40};
  hard.noise = {0, 3};
  hard.queries = {1, 90};
  hard.length = 3 * 40 + 3 + 3 * 90 + 1;  // just enough
  for (const RetrievalOptions& options : {RetrievalOptions{}, hard}) {
    std::set<size_t> pairs, queries;
    for (int64_t number = 0; number < 200; ++number) {
      const Parsed parsed = parse(retrieval_document(options, 7, number), options);
      expect_in(parsed.pairs.size(), options.pairs);
      expect_in(parsed.noise.size(), options.noise);
      expect_in(parsed.asked.size(), options.queries);
      pairs.insert(parsed.pairs.size());
      queries.insert(parsed.asked.size());
      // No key is asked for twice before each was asked once.
      const size_t first = std::min(parsed.asked.size(), parsed.pairs.size());
      EXPECT_EQ(std::set<int32_t>(parsed.asked.begin(), parsed.asked.begin() + static_cast<int64_t>(first)).size(),
                first);
    }
    EXPECT_GT(pairs.size(), 3u);
    EXPECT_GT(queries.size(), 5u);
  }
}

TEST(RetrievalTask, AnswersAreSpreadOverTheSymbols) {
  RetrievalOptions options;
  std::map<int32_t, int> answers;
  int total = 0;
  for (int64_t number = 0; number < 2000; ++number) {
    const RetrievalDocument document = retrieval_document(options, 3, number);
    for (size_t t = 0; t < document.ids.size(); ++t) {
      if (document.answers[t] == 0) continue;
      ++answers[document.ids[t]];
      ++total;
    }
  }
  ASSERT_EQ(answers.size(), 16u);
  for (const auto& [symbol, count] : answers) EXPECT_NEAR(count, total / 16.0, total * 0.015) << symbol;
}

TEST(RetrievalTask, FollowsFromSeedAndNumberAlone) {
  const RetrievalOptions options;
  std::set<std::vector<int32_t>> different;
  for (const uint64_t seed : {0, 1, 2}) {
    for (int64_t number = 0; number < 50; ++number) different.insert(retrieval_document(options, seed, number).ids);
  }
  EXPECT_EQ(different.size(), 150u);
  EXPECT_EQ(retrieval_document(options, 2, 49).ids, retrieval_document(options, 2, 49).ids);
  EXPECT_EQ(retrieval_document(options, 2, 49).ids[0], 16);
}

TEST(RetrievalTask, CountingNoiseCanBePredicted) {
  RetrievalOptions options;
  options.pattern = NoisePattern::kCounting;
  std::set<int32_t> starts;
  for (int64_t number = 0; number < 100; ++number) {
    const Parsed parsed = parse(retrieval_document(options, 1, number), options);
    for (size_t t = 1; t < parsed.noise.size(); ++t) EXPECT_EQ(parsed.noise[t], (parsed.noise[t - 1] + 1) % 16);
    starts.insert(parsed.noise[0]);
  }
  EXPECT_GT(starts.size(), 12u);
}

TEST(RetrievalTask, RefusesWhatNoDocumentCanSatisfy) {
  const auto refusal = [](const std::function<void(RetrievalOptions&)>& change) {
    RetrievalOptions options;
    change(options);
    return user_error_of([&] { check_retrieval_options(options); });
  };
  using O = RetrievalOptions;
  EXPECT_NE(refusal([](O& o) { o.vocabulary = 1; }).find("--vocabulary 1"), std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.pairs = {2, 17}; }).find("--pairs 2:17"), std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.pairs = {0, 2}; }).find("--pairs 0:2"), std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.noise = {9, 8}; }).find("--noise 9:8"), std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.queries = {0, 8}; }).find("--queries 0:8"), std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.length = 189; }).find("need up to 190 tokens"), std::string::npos);
  check_retrieval_options({.length = 190});
}

TEST(RetrievalTask, WordsNameEveryId) {
  WordTokenizer tokenizer(retrieval_words(16));
  EXPECT_EQ(tokenizer.vocab_size(), 19);
  EXPECT_EQ(tokenizer.end_of_text(), 18);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{16, 3, 15, 17, 3, 18}), " STORE 3 15 QUERY 3");
}

}  // namespace
}  // namespace longhaul
