#!/usr/bin/env bash
# Installs what the tests of the web page need: Chromium and its driver from the distribution, and the rules of axe-core
# (accessibility) from the npm registry into models/cache/browser (or VIC_MODELS_DIR/browser). Names what is missing; tests
# without a browser then say NOT PROVEN.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${VIC_MODELS_DIR:-$here/cache}/browser
mkdir -p "$home"

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

if ! { command -v chromium && command -v chromedriver; } >/dev/null; then
  echo "installing chromium" >&2
  { as_root apt-get install -y -qq chromium chromium-driver \
      || { as_root apt-get update -qq && as_root apt-get install -y -qq chromium chromium-driver; }; } >/dev/null 2>&1 \
    || printf 'chromium is missing: the web page is not tested\nhint: sudo apt-get install chromium chromium-driver\n' >&2
fi

axe_version=4.14.1
axe_sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
if ! sha256sum --quiet --check >/dev/null 2>&1 <<< "$axe_sha256  $home/axe.min.js"; then
  address=https://registry.npmjs.org/axe-core/-/axe-core-$axe_version.tgz
  if python3 - "$address" "$home/axe.min.js" <<'PYTHON'
import io, sys, tarfile, urllib.request

archive = io.BytesIO(urllib.request.urlopen(sys.argv[1], timeout=60).read())
with tarfile.open(fileobj=archive) as files, open(sys.argv[2], "wb") as target:
    target.write(files.extractfile("package/axe.min.js").read())
PYTHON
  then
    sha256sum --quiet --check <<< "$axe_sha256  $home/axe.min.js" || rm -f "$home/axe.min.js"
  fi
  [ -f "$home/axe.min.js" ] || printf 'axe-core is missing: accessibility is not tested\nhint: check the network\n' >&2
fi
exit 0
