#!/usr/bin/env bash
# GoogleTest comes from the system. Installs it where that is possible, else says what is missing;
# never fails: without it the C++ tests are skipped and the Python tests still run.
set -u

have_gtest() {
  echo '#include <gtest/gtest.h>' | "${CXX:-c++}" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null
}

have_gtest && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq libgtest-dev </dev/null >/dev/null
fi
have_gtest || echo "GoogleTest is missing, so the C++ tests are skipped." \
  "Install it (Debian, Ubuntu: apt-get install libgtest-dev; Fedora: dnf install gtest-devel)." >&2
exit 0
