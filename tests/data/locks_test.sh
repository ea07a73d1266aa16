#!/usr/bin/env bash
# ctest: label=reliability timeout=120
# File systems without working locks (NFS, Lustre, DVS): every way flock can fail leaves the same bytes and readable data.
set -euo pipefail
place=$(mktemp -d)
trap 'chmod -R u+w "$place"; rm -rf "$place"' EXIT

cat >"$place/shim.c" <<'SHIM'
#include <errno.h>
#include <stdlib.h>
int flock(int descriptor, int operation) {
  (void)descriptor, (void)operation;
  errno = atoi(getenv("FLOCK_ERRNO"));
  return -1;
}
SHIM
cc -shared -fPIC -o "$place/shim.so" "$place/shim.c"
for i in $(seq 300); do printf 'document %d of the corpus\n\n' "$i"; done >"$place/corpus.txt"

tokenize() { "$LONGHAUL" tokenize --input "$place/corpus.txt" --out "$1" --tokenizer bytes --split 90,10,0 >/dev/null; }
tokenize "$place/plain"
for code in 37 11 524; do # ENOLCK, EAGAIN, ENOTSUP of the kernel
  export FLOCK_ERRNO=$code LD_PRELOAD=$place/shim.so
  tokenize "$place/set$code"
  "$LONGHAUL" verify "$place/set$code" | grep -q '^good'
  unset LD_PRELOAD
  diff -r "$place/plain" "$place/set$code"
done

chmod a-w "$place/plain"/* "$place/plain"
"$LONGHAUL" verify "$place/plain" | grep -q '^good'

# A writer that really holds a shard is still told apart.
chmod -R u+w "$place/plain"
shard=$(ls "$place"/plain/train-*.h5)
exec 9<>"$shard"
flock --exclusive --nonblock 9
printf '[data]\ndatasets = %s\ncontext = 16\n' "$place/plain" >"$place/run.ini"
if "$LONGHAUL" stream --config "$place/run.ini" --set model.context_length=16 --steps 0:1 >"$place/out" 2>"$place/err"; then
  echo "a shard held by a writer was read" && exit 1
fi
grep -q 'shard is being written' "$place/err" || { cat "$place/err"; exit 1; }
