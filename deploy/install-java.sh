#!/usr/bin/env bash
# Java 17 or newer (with its compiler) and Maven, through apt-get where they are missing. Says nothing if all is there.
#   bash deploy/install-java.sh
set -euo pipefail

java_home() { [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/$1" ] && echo "$JAVA_HOME/bin/$1" || command -v "$1"; }

has_java() {
  local javac version
  javac=$(java_home javac) && java_home java >/dev/null || return 1
  version=$("$javac" -version 2>&1 | sed -E 's/^javac ([0-9]+).*/\1/')
  [ "$version" -ge 17 ] 2>/dev/null
}

missing=()
has_java || missing+=("java")
command -v mvn >/dev/null || missing+=("maven")
[ ${#missing[@]} = 0 ] && exit 0

say="HBase needs Java 17 (a JDK) and Maven. Install them (on Debian: apt-get install openjdk-17-jdk-headless maven) and try again."
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "$say" >&2
  exit 1
fi
echo "installing ${missing[*]} through apt-get"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
packages=()
for what in "${missing[@]}"; do
  if [ "$what" = maven ]; then
    packages+=(maven)
  elif apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1; then
    packages+=(openjdk-17-jdk-headless)
  else
    packages+=(default-jdk-headless)
  fi
done
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null || { echo "$say" >&2; exit 1; }
has_java || { echo "$say" >&2; exit 1; }
