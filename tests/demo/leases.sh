#!/bin/sh
# leases.sh FILE   who has a DHCP lease: "name address", sorted by name; unnamed devices show their MAC.
# FILE has dnsmasq's format: expiry mac address name client-id
while read -r expiry mac address name id; do
	[ "$name" = '*' ] && name=$max
	echo "$name $address"
done < "$1" | sort -r
