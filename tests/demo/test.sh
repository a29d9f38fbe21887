#!/bin/sh
# The test of leases.sh.
cd "$(dirname "$0")" || exit 1
cat > /tmp/leases.$$ <<'LEASES'
1767225600 aa:bb:cc:00:00:01 192.168.1.21 printer 01:aa
1767225600 aa:bb:cc:00:00:02 192.168.1.22 * *
1767225600 aa:bb:cc:00:00:03 192.168.1.23 laptop 01:bb
LEASES
want='aa:bb:cc:00:00:02 192.168.1.22
laptop 192.168.1.23
printer 192.168.1.21'
got=$(sh leases.sh /tmp/leases.$$)
rm -f /tmp/leases.$$
if [ "$got" = "$want" ]; then
	echo "PASS: leases.sh"
else
	echo "FAIL: leases.sh"
	echo "wanted:"
	echo "$want"
	echo "got:"
	echo "$got"
	exit 1
fi
