# Packages of Debian or Ubuntu where there is no root, read by ./dev: apt-get downloads them with all that they need and
# the system has not, and they are unpacked into .deps, where cmake/Deps.cmake finds them. Nothing of them is run.
DEPS=$PWD/.deps
DEPS_ENVIRONMENT=$DEPS/environment  # for a shell in which ninja or tests are run by hand
DEPS_ONLY_ROOT=(xvfb xauth openbox)  # an X server runs /usr/bin/xkbcomp, wherever it is itself
DEPS_APT=(-o Debug::NoLocking=1 -o "Dir::State=$DEPS/apt" -o "Dir::State::status=$DEPS/apt/status" -o "Dir::Cache=$DEPS/apt"
  -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Acquire::Languages=none)

# Whether packages are unpacked rather than installed: this user cannot become root, or FOXSCOPE_DEPS=local says so.
without_root() {
  [[ ${FOXSCOPE_DEPS:-} != local ]] || return 0
  ((EUID)) || return 1
  command -v sudo >/dev/null || return 0
  ! sudo -n true 2>/dev/null && ! id -nG | grep -qwE 'root|sudo|admin|wheel'
}

is_unpacked() { grep -qxF "Package: $1" "$DEPS/installed" 2>/dev/null; }

# What is in .deps is found by what is started from here on.
use_unpacked() {
  # shellcheck source=/dev/null
  [[ ! -e $DEPS_ENVIRONMENT || :$PATH: == *":$DEPS/usr/bin:"* ]] || . "$DEPS_ENVIRONMENT"
}

# unpack_packages PACKAGE...: .deps/installed tells what is there, and apt-get takes it for installed.
unpack_packages() {
  # shellcheck disable=SC2034  # root: the words before apt_get's command
  local package packages=() left=() unknown root=()
  for package in "$@"; do
    if [[ " ${DEPS_ONLY_ROOT[*]} " == *" $package "* ]]; then left+=("$package"); else packages+=("$package"); fi
  done
  ((!${#left[@]})) ||
    say "the window's tests run without an X server; for one, ask the administrator: apt-get install ${left[*]}"
  ((${#packages[@]})) || return 0
  say "no root: unpacking Debian packages into .deps: ${packages[*]}"
  mkdir -p "$DEPS"/apt/{lists,archives}/partial "$DEPS"/usr/{bin,sbin,lib,lib64}
  for package in bin sbin lib lib64; do ln -sfn "usr/$package" "$DEPS/$package"; done
  # A build that was configured without them has flags without them.
  [[ -e $DEPS/installed ]] || rm -f build*/CMakeCache.txt
  (
    trap '(($? == 0)) || say "ask the administrator: apt-get install --no-install-recommends ${packages[*]}"' EXIT
    flock 9
    touch "$DEPS/installed"
    cat /var/lib/dpkg/status "$DEPS/installed" >"$DEPS/apt/status"
    [[ -n ${updated:-} ]] || apt_get update "${DEPS_APT[@]}"
    unknown=$(comm -13 <(apt-cache "${DEPS_APT[@]}" pkgnames | sort) <(printf '%s\n' "${packages[@]}" | sort) | xargs)
    [[ -z $unknown ]] || die "the system's package sources do not have: $unknown"
    apt_get install "${DEPS_APT[@]}" -y --no-install-recommends --download-only "${packages[@]}"
    unpack_archives
  ) 9>"$DEPS/lock"
  updated=yes
  use_unpacked
}

# Unpacks what apt-get has downloaded, without what nobody reads here, and notes it when all is in its place.
unpack_archives() {
  local archive archives=("$DEPS"/apt/archives/*.deb)
  [[ -e ${archives[0]} ]] || return 0
  # shellcheck disable=SC2016
  printf '%s\0' "${archives[@]}" | xargs -0 -n 8 -P "$(nproc)" sh -c 'for archive; do
    dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$0" --keep-directory-symlink --no-same-owner \
      --exclude "./usr/share/doc/*" --exclude "./usr/share/man/*" --exclude "./usr/share/locale/*" || exit 255
  done' "$DEPS" || die "unpacking into .deps failed"
  repair_links
  repair_paths
  write_environment
  for archive in "${archives[@]}"; do
    dpkg-deb --field "$archive" | sed '/^Package:/a Status: install ok installed' && echo
  done >"$DEPS/apt/unpacked"
  cat "$DEPS/apt/unpacked" >>"$DEPS/installed"
  rm "${archives[@]}"
}

# Links to a library that the system has, or to /usr, lead to what is there. Of a library that is shared as well, the
# static twin goes.
repair_links() {
  local link target folder
  find "$DEPS" -xtype l -print0 | while IFS= read -rd '' link; do
    target=$(readlink "$link")
    for folder in "$DEPS${target%/*}" /usr/lib/x86_64-linux-gnu /lib/x86_64-linux-gnu; do
      [[ ! -e $folder/${target##*/} ]] || { ln -sfn "$folder/${target##*/}" "$link"; break; }
    done
  done
  find "$DEPS/usr/lib" -name '*.a' -print0 | while IFS= read -rd '' link; do
    [[ ! -e ${link%.a}.so ]] || rm "$link"
  done
}

edit_files() {
  local script=$1 file
  shift
  for file; do [[ ! -e $file ]] || sed -i "$script" "$file"; done
}

# Files that name a place under /usr by its whole path name that of .deps.
repair_paths() {
  local libraries=$DEPS/usr/lib/x86_64-linux-gnu
  edit_files 's|/usr/lib/x86_64-linux-gnu/\(lib[a-z]*_nonshared\)|\1|g' "$libraries"/libc.so  # a script of the linker's
  edit_files "s|^prefix=\"\?/usr\"\?$|prefix=\"$DEPS/usr\"|" "$DEPS"/usr/bin/h5cc
  edit_files "s|^prefix=/usr$|prefix=$DEPS/usr|" "$libraries"/pkgconfig/*.pc "$DEPS"/usr/share/pkgconfig/*.pc
  edit_files "s|'/usr/share/python-wheels|'$DEPS/usr/share/python-wheels|" "$DEPS"/usr/lib/python3*/_sysconfigdata*.py
}

# What an installation would have told the system: where programs, libraries, plugins, fonts and certificates are.
write_environment() {
  local fonts=/etc/fonts/fonts.conf
  [[ -e $fonts ]] || fonts=$DEPS/usr/share/fontconfig/conf.avail/60-latin.conf
  cat >"$DEPS/fonts.conf" <<XML
<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>$DEPS/usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir>
<include ignore_missing="yes">$fonts</include></fontconfig>
XML
  [[ -e /etc/ssl/certs/ca-certificates.crt || ! -d $DEPS/usr/share/ca-certificates ]] ||
    find "$DEPS/usr/share/ca-certificates" -name '*.crt' -exec cat {} + >"$DEPS/certificates.crt"
  cat >"$DEPS_ENVIRONMENT" <<SHELL
export PATH="$DEPS/usr/bin:\$PATH"
export LD_LIBRARY_PATH="$DEPS/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export PKG_CONFIG_PATH="$DEPS/usr/lib/x86_64-linux-gnu/pkgconfig"
export XDG_DATA_DIRS="$DEPS/usr/share:\${XDG_DATA_DIRS:-/usr/local/share:/usr/share}"
[ ! -e "$DEPS/usr/lib/git-core" ] || export GIT_EXEC_PATH="$DEPS/usr/lib/git-core"
export QT_PLUGIN_PATH="$DEPS/usr/lib/x86_64-linux-gnu/qt6/plugins"
export FONTCONFIG_FILE="$DEPS/fonts.conf"
[ ! -e "$DEPS/usr/share/X11/xkb" ] || export XKB_CONFIG_ROOT="$DEPS/usr/share/X11/xkb"
[ ! -e "$DEPS/certificates.crt" ] || export PIP_CERT="\${PIP_CERT:-$DEPS/certificates.crt}"
SHELL
}
