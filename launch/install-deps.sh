#!/usr/bin/env bash
# Installs what longhaul needs on Debian 12+ or Ubuntu 24.04+: launch/install-deps.sh [--developer] [--quickstart]
#   --developer   also clang-format and clang-tidy
#   --quickstart  also the public-domain text launch/quickstart.sh trains on by default
# Does nothing (and needs no root) when all packages are there already. Why each one: docs/dependencies.md.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git ca-certificates python3 # building
  libopenmpi-dev openmpi-bin                                          # ranks
  libhdf5-dev libblis-openmp-dev zlib1g-dev libxxhash-dev             # storage, products, checksums
  libboost-program-options-dev libfmt-dev nlohmann-json3-dev          # command line, text, JSON
  libsentencepiece-dev libutf8proc-dev                                # tokenizers
  libprotobuf-dev protobuf-compiler                                   # TensorBoard events
  libgtest-dev libgmock-dev                                           # tests
)
for option in "$@"; do
  case $option in
    --developer) packages+=(clang-format clang-tidy) ;;
    --quickstart) packages+=(bible-kjv) ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    *) echo "install-deps.sh: unknown option $option; options are --developer and --quickstart" >&2; exit 2 ;;
  esac
done

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || {
  echo "install-deps.sh: no dpkg and apt-get here; on other systems install what docs/dependencies.md lists" >&2
  exit 1
}
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\n' 2>/dev/null | sed -n 's/^ii *\([^:]*\).*/\1/p')
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps.sh: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "install-deps.sh: neither root nor sudo; ask an administrator for: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "install-deps.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "install-deps.sh: installed ${#missing[@]} packages"
