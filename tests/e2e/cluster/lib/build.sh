# shellcheck shell=bash
# How binaries are made of the modules; a change here makes new ones. Set before: CLUSTER.

# build_module MODULE FOLDER: all tools that the module names.
build_module() {
  local flags="-s -w" version start=$EPOCHREALTIME
  cd "$CLUSTER/modules/$1" || return
  case "$1" in
    kubernetes)
      version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
      flags="$flags $(kubernetes_version_flags "$version")"
      ;;
    helm)
      version=$(go list -m -f '{{.Version}}' helm.sh/helm/v4)
      flags="$flags -X helm.sh/helm/v4/internal/version.version=$version"
      ;;
  esac
  # Built beside tests that measure time, so it steps back.
  CGO_ENABLED=0 GOWORK=off nice -n 10 go build -mod=readonly -trimpath -buildvcs=false -p "${TRAWLER_BUILD_JOBS:-2}" \
    -ldflags "$flags" -o "$2/" tool >&2 || fail "the tools of modules/$1 do not build (see above)"
  [ "$1" != etcd ] || mv "$2/server" "$2/etcd"
  say "built the tools of modules/$1 ($(seconds_since "$start"))"
}

# kubernetes_version_flags v1.2.3: what kubectl, Helm and clients are told about the version.
kubernetes_version_flags() {
  local package=k8s.io/component-base/version major minor
  IFS=. read -r major minor _ <<< "${1#v}"
  printf -- '-X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s' \
    "$package" "$1" "$package" "$major" "$package" "$minor"
}

build_pause() {
  gcc -static -Os -s -Wall -Wextra -o "$1/pause" "$CLUSTER/pause/pause.c" || fail "pause does not build (see above)"
}
