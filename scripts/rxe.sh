#!/usr/bin/env bash
# Runs the tests over RDMA, or a program, in a throw-away virtual machine with soft-RoCE: the kernel's own
# RDMA device over an Ethernet interface. The kernel of this machine needs no RDMA, and no root is needed. All
# nodes are processes of the one virtual machine, which is emulated: this is evidence of function, never of
# speed.
#
# Usage: scripts/rxe.sh [--file PATH]... [--with PROGRAM]... [PROGRAM [ARGUMENT]...]
#   scripts/rxe.sh                                     tests of windows, fabrics, bpmf and kge over RDMA;
#                                                      then, without the device, what bpmf says
#   scripts/rxe.sh target/release/intendant-bpmf ...   a program; it sees loopback and 10.9.0.1 on rxe0
#   scripts/rxe.sh --file data/u.data PROGRAM u.data   with a file or a folder in its working directory
#   scripts/rxe.sh --with PROGRAM TEST verbs::         with another program, where it is on this machine
# The exit status is that of the tests or the program, and 124 if the machine has not ended after LIMIT
# seconds.
#
# Environment: LIMIT (1200)  MEMORY (1024, MiB)  CPUS (1)
#   KVM=1    runs the machine on the processors of this one, where that works
#   KERNEL   file of a Debian kernel package; by default, apt downloads one to target/rxe, once
#   REQUIRE=1  fails if something is missing; otherwise the script says so, does nothing, and succeeds
# Needs Debian or a relative of it, with the packages below; `.ci/rxe` installs them.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
packages='qemu-system-x86 busybox-static iproute2 kmod cpio xz-utils ibverbs-providers libibverbs-dev libclang-dev cmake'
limit=${LIMIT:-1200} memory=${MEMORY:-1024} cpus=${CPUS:-1}
state=$here/target/rxe
# Loaded in this order. Soft-RoCE takes its checksum from crc32_generic, a dependency that modprobe does not
# know.
modules='crc32_generic udp_tunnel ip6_udp_tunnel ib_core ib_uverbs rdma_rxe dummy veth'

files=() companions=()
while [ $# -gt 0 ]; do
  case $1 in
    --file) files+=("$(realpath "$2")") && shift 2 ;;
    --with) companions+=("$(realpath "$2")") && shift 2 ;;
    --) shift && break ;;
    -*) echo "rxe.sh: no option $1; see the head of the script" >&2 && exit 2 ;;
    *) break ;;
  esac
done

PATH=$PATH:/usr/sbin:/sbin
missing=()
for tool in qemu-system-x86_64 busybox ip rdma depmod modprobe cpio xz dpkg-deb; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
driver=$(find /usr/lib -path '*/libibverbs/librxe-rdmav*.so' 2>/dev/null | head -n 1 || true)
[ -n "$driver" ] || missing+=(librxe)
if [ ${#missing[@]} -gt 0 ]; then
  echo "rxe.sh: not found: ${missing[*]} (packages: $packages)" >&2
  [ "${REQUIRE:-0}" = 1 ] && exit 1
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the machine runs, in its folder /work: lines of a shell. `programs` are copied there, `companions` to
# where they are here, which is where tests look for the programs that they start.
programs=() lines=()
if [ $# -eq 0 ]; then
  # The features that tests of the transport need of its dependencies would compile the programs once more.
  artifacts=$(cd "$here" && for packages in 'intendant-onesided bpmf kge' intendant-transport; do
    # shellcheck disable=SC2086 # Several words.
    cargo test --locked --features verbs $(printf -- '--package %s ' $packages) --test it --no-run --message-format json
  done)
  # The executable of a folder's package that has this name.
  executable() {
    local path
    path=$(sed -n "s|.*\"package_id\":\"[^\"]*/$1#.*\"name\":\"$2\".*\"executable\":\"\([^\"]*\)\".*|\1|p" <<<"$artifacts" |
      tail -n 1)
    [ -x "$path" ] || { echo "rxe.sh: cargo has named no program $2 of $1" >&2 && exit 1; }
    echo "$path"
  }
  windows=$(executable onesided it) fabrics=$(executable transport it)
  bpmf=$(executable bpmf it) kge=$(executable kge it)
  companions+=("$(executable bpmf intendant-bpmf)" "$(executable kge intendant-kge)")
  programs=("$windows" "$fabrics" "$bpmf" "$kge")
  lines=(
    "run ./$(basename "$windows") --test-threads=1 verbs:: operations::"
    "run ./$(basename "$fabrics") --test-threads=1 fabrics:: rdma:: handshake:: broken_peers::"
    "run ./$(basename "$bpmf") --test-threads=1 --nocapture verbs::"
    "run ./$(basename "$kge") --test-threads=1 --nocapture failures::nodes_over_rdma failures::memory_beyond"
    'rdma link delete rxe0' 'unset REQUIRE_VERBS' 'export REQUIRE_NO_VERBS=1'
    "run ./$(basename "$bpmf") --test-threads=1 verbs::without"
  )
else
  programs=("$(realpath "$1")")
  [ -x "${programs[0]}" ] || { echo "rxe.sh: $1 is no program" >&2 && exit 2; }
  shift
  printf -v line '%q ' "./$(basename "${programs[0]}")" "$@"
  lines=("run $line")
fi

# The kernel, and modules with what they need, in the order in which they are loaded.
kernel() {
  mkdir -p "$state"
  local package=${KERNEL:-} name version
  # `of` has the package, and the modules that were taken from it.
  if [ -z "$package" ] && [ "$(sed -n 2p "$state/of" 2>/dev/null)" = "$modules" ]; then return; fi
  if [ -z "$package" ]; then
    name=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -n 1)
    [ -n "$name" ] || { echo 'rxe.sh: apt knows no kernel (linux-image-amd64); run apt-get update' >&2 && exit 1; }
    package=$(find "$state" -maxdepth 1 -name "$name"_'*.deb' | head -n 1)
    if [ -z "$package" ]; then
      (cd "$state" && apt-get download -q "$name" >&2)
      package=$(find "$state" -maxdepth 1 -name "$name"_'*.deb' | head -n 1)
    fi
  fi
  if [ "$(cat "$state/of" 2>/dev/null)" = "$package"$'\n'"$modules" ]; then return; fi
  rm -rf "$state/modules" "$state/kernel" "$state/of" "$work/package"
  dpkg-deb -x "$package" "$work/package"
  version=$(basename "$(find "$work/package" -path '*/lib/modules/*' -maxdepth 5 -type d -name '[0-9]*' | head -n 1)")
  depmod -b "$work/package" "$version"
  mkdir -p "$state/modules"
  local module line
  for module in $modules; do
    modprobe -d "$work/package" -S "$version" --show-depends "$module"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$work/order"
  : >"$state/modules/order"
  while read -r line; do
    cp "$line" "$state/modules/"
    basename "$line" >>"$state/modules/order"
  done <"$work/order"
  unpack "$(find "$work/package/boot" -name 'vmlinuz-*' | head -n 1)" >"$state/kernel"
  rm -rf "$work/package"
  printf '%s\n' "$package" "$modules" >"$state/of"
}

# The kernel as it is in memory: without KVM, unpacking it in the machine takes most of the start. An image
# that is not packed by xz is taken as it is.
unpack() {
  local offset
  offset=$(LC_ALL=C grep -abo $'\xfd7zXZ' "$1" | head -n 1 | cut -d: -f1)
  if [ -n "$offset" ] && tail -c "+$((offset + 1))" "$1" | xz -dc --single-stream 2>/dev/null >"$work/kernel" &&
    [ "$(head -c 4 "$work/kernel")" = $'\x7fELF' ]; then
    cat "$work/kernel"
  elif [ -s "$work/kernel" ] && [ "$(head -c 4 "$work/kernel")" = $'\x7fELF' ]; then
    # xz complains about what follows the kernel in the image.
    cat "$work/kernel"
  else
    cat "$1"
  fi
}

# Copies a program and the libraries that it needs.
install_program() {
  cp -L "$1" "$root/$2"
  { ldd "$1" 2>/dev/null || true; } | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/lib[^ ]*\) .*/\1/p' |
    while read -r library; do
      mkdir -p "$root$(dirname "$library")"
      [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done
}

kernel
root=$work/root
mkdir -p "$root"/{bin,sbin,dev,etc,proc,sys,tmp,work,modules}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$state"/modules/* "$root/modules/"
install_program "$(command -v rdma)" bin/rdma
# Busybox has an `ip` with less of it.
install_program "$(command -v ip)" sbin/ip
mkdir -p "$root$(dirname "$driver")" "$root/etc/libibverbs.d"
install_program "$driver" "${driver#/}"
echo 'driver rxe' >"$root/etc/libibverbs.d/rxe.driver"
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
for program in "${programs[@]}"; do install_program "$program" "work/$(basename "$program")"; done
for program in "${companions[@]}"; do
  mkdir -p "$root$(dirname "$program")"
  install_program "$program" "${program#/}"
done
for file in "${files[@]}"; do cp -rL "$file" "$root/work/"; done
# Threads that end load it by name.
for library in /lib/*/libgcc_s.so.1; do
  mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"
done
{
  cat <<'END'
export REQUIRE_VERBS=1 RUST_BACKTRACE=1
failed=0
run() {
  "$@" || { code=$? && failed=$((failed ? failed : code)) && echo "rxe.sh: exit $code of $*"; }
}
END
  printf '%s\n' "${lines[@]}"
  # shellcheck disable=SC2016 # The machine expands it.
  echo 'exit $failed'
} >"$root/work/.command"
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
dmesg -n 1
while read -r module; do insmod "/modules/$module"; done </modules/order
ip link set lo up
ip link set dummy0 mtu 4200
ip addr add 10.9.0.1/24 dev dummy0
ip link set dummy0 up
rdma link add rxe0 type rxe netdev dummy0
# The address appears in the table of the device a moment later.
for try in 1 2 3 4 5 6 7 8 9 10; do
  grep -q ffff:0a09:0001 /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null && break
  sleep 0.2
done
# Another network namespace, as if it were another host: ELSEWHERE is a process there, and MASTER the address
# of this one. The device is in both.
unshare -n sleep 1000000 &
export ELSEWHERE=$! MASTER=10.8.0.1
while [ "$(readlink /proc/$ELSEWHERE/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
/sbin/ip link add far0 type veth peer name far1
/sbin/ip link set far1 netns $ELSEWHERE
/sbin/ip addr add $MASTER/24 dev far0
/sbin/ip link set far0 up
for command in 'link set lo up' 'addr add 10.8.0.2/24 dev far1' 'link set far1 up'; do
  nsenter -t $ELSEWHERE -n /sbin/ip $command
done
ulimit -l unlimited
echo "rxe.sh: soft-RoCE is up after $(cut -d' ' -f1 /proc/uptime) s, Linux $(uname -r)"
cd /work
sh ./.command
echo "rxe.sh: exit $? after $(cut -d' ' -f1 /proc/uptime) s"
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"

if [ "${KVM:-0}" = 1 ]; then
  processors=(-accel kvm -cpu host)
else
  # Time in the machine passes with its instructions: a busy host does not make packets late.
  # Without AVX: QEMU moves vectors of 256 bits by AVX, and computes each element in a function of the older
  # encoding (SSE) that calls one of AVX. Some processors take 100 ns for each change of the encoding, and
  # programs that multiply matrices (kge) took seven times as long.
  processors=(-accel 'tcg,thread=single' -cpu 'max,-avx' -icount 'shift=0,sleep=off')
fi
timeout "$limit" qemu-system-x86_64 "${processors[@]}" -smp "$cpus" -m "$memory" \
  -kernel "$state/kernel" -initrd "$work/initrd" -append "console=ttyS0 ${QUIET-quiet} panic=-1 mitigations=off" \
  -nodefaults -no-user-config -display none -no-reboot -nic none -serial stdio </dev/null |
  sed -u 's/\r$//' | tee "$work/console" || true
code=$(sed -n 's/^rxe\.sh: exit \([0-9]*\) after.*/\1/p' "$work/console" | tail -n 1)
if [ -z "$code" ]; then
  echo "rxe.sh: the machine has ended, or was ended after $limit s, without a result" >&2
  exit 124
fi
exit "$code"
