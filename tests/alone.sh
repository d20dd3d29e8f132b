# Run a command on a machine whose only wire out leads nowhere, and say how many packets were put on it.
set -e
ip link set lo up
ip link add out0 type veth peer name nowhere0
# Neighbour discovery is the kernel's, not the command's.
echo 1 | tee /proc/sys/net/ipv6/conf/out0/disable_ipv6 >/proc/sys/net/ipv6/conf/nowhere0/disable_ipv6
ip addr add 198.51.100.1/24 dev out0
ip link set nowhere0 up
ip link set out0 up
ip route add default via 198.51.100.2
ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:01 dev out0
code=0
"$@" || code=$?
awk '/out0:/ {print "packets sent: " $11}' /proc/net/dev
exit $code
