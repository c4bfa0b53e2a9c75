#!/usr/bin/env bash
# A fleet of network namespaces, of which one has a slow link: does 'lanescope fleet check' name it?
#
#   sudo benchmarks/fleet/slow_link.sh NODES SLOW RATE SLOW_RATE OUT [OPTION]...
#
# NODES namespaces n01, n02, ... hang on a bridge, each at RATE (such as 100mbit) in both directions;
# node SLOW at SLOW_RATE. All of it lives in namespaces of this script and ends with it. The ranks are
# started by MPICH's mpiexec from the PATH, without SSH. OPTIONs go to 'fleet check', such as
# '--pairs sample'.
set -euo pipefail
if [[ ${SLOW_LINK_INSIDE:-} != yes ]]; then
  SLOW_LINK_INSIDE=yes exec unshare --net --mount --pid --fork --kill-child "$0" "$@"
fi
nodes=$1 slow=$2 rate=$3 slow_rate=$4 out=$5
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mount --make-rprivate /
mount -t proc proc /proc
mkdir -p /run/netns
mount -t tmpfs none /run/netns

ip link set lo up
ip link add br0 type bridge
ip address add 10.77.0.254/24 dev br0
ip link set br0 up
hosts=()
for number in $(seq 1 "$nodes"); do
  name=$(printf 'n%02d' "$number")
  ip netns add "$name"
  ip link add "v$number" type veth peer name eth0 netns "$name"
  ip link set "v$number" master br0 up
  ip -n "$name" link set lo up
  ip -n "$name" address add "10.77.0.$number/24" dev eth0
  ip -n "$name" link set eth0 up
  its=$([[ $number == "$slow" ]] && echo "$slow_rate" || echo "$rate")
  tc qdisc add dev "v$number" root tbf rate "$its" burst 32k latency 100ms
  tc -n "$name" qdisc add dev eth0 root tbf rate "$its" burst 32k latency 100ms
  hosts+=("10.77.0.$number")
done

# What mpiexec calls instead of ssh: [-x] ADDRESS COMMAND...
cat >"$work/enter" <<'ENTER'
#!/usr/bin/env bash
while [[ $1 == -* ]]; do shift; done
name=$(printf 'n%02d' "${1##*.}")
shift
exec ip netns exec "$name" unshare --uts bash -c "hostname $name; $*"
ENTER
chmod +x "$work/enter"
# All of them are one machine, whose shared memory is no network.
export MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=tcp UCX_TLS=tcp,self
list=$(IFS=,; echo "${hosts[*]}")
mpiexec -launcher ssh -launcher-exec "$work/enter" -localhost 10.77.0.254 -hosts "$list" -ppn 1 \
  -n "$nodes" lanescope fleet check --out "$out" "$@"
