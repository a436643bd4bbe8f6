#!/usr/bin/env bash
# Builds the Debian packages and has lintian judge them: no error and no warning, but for these tags.
#   bogus-mail-host...           FUSEC_MAINTAINER is a placeholder until somebody publishes the packages and says who answers for them
#   maintscript-calls-ldconfig   CPack writes the call beside the trigger that policy wants; it does no harm
#   pkg-config-unavailable...    the packages are for one architecture: the library and fusec.pc are in /usr/lib, whose file is found
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command -v lintian >/dev/null || apt-get install -y -q --no-install-recommends lintian
tags=bogus-mail-host,bogus-mail-host-in-debian-changelog,maintscript-calls-ldconfig,pkg-config-unavailable-for-cross-compilation
mapfile -t packages < <("$root/.setup/deb.sh")
lintian --allow-root --fail-on error,warning --suppress-tags "$tags" "${packages[@]}"
