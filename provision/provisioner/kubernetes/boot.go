package kubernetes

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clusterboot"
	"github.com/croft-edge/croft/pkg/nocloud"
	"github.com/croft-edge/croft/pkg/node"
)

// prefix6 is the length of a network's IPv6 prefix.
const prefix6 = 64

// configDisk makes the image of the config disk.
func (r readied) configDisk(tap node.Tap) ([]byte, error) {
	data := clusterboot.Data{
		SSHKeys: r.keys, Croft: clusterboot.Machine{Secret: string(r.secret), Masters: append([]string{}, r.masters...), Address: tap.IPv4},
	}
	for _, name := range r.accounts {
		data.SSHImport = append(data.SSHImport, "gh:"+name)
	}
	user, err := data.Encode()
	if err != nil {
		return nil, err
	}
	link, err := linkOf(tap, r.gateway, r.subnet)
	if err != nil {
		return nil, err
	}
	var image bytes.Buffer
	err = nocloud.Write(&image, nocloud.Config{
		InstanceID: r.id, Hostname: r.id, Interfaces: []nocloud.Interface{link}, SSHKeys: r.keys, UserData: user,
	})
	return image.Bytes(), node.WithKind(node.Invalid, errors.Wrap(err, "cannot write its config disk"))
}

// linkOf is the VM's network interface, in the network's subnet on this node.
func linkOf(tap node.Tap, gateway, subnet string) (nocloud.Interface, error) {
	bad := func(field, value string) (nocloud.Interface, error) {
		return nocloud.Interface{}, node.Errorf(node.Internal, "the network module answered %s %.80q", field, value)
	}
	mac, err := net.ParseMAC(tap.MAC)
	if err != nil {
		return bad("MAC", tap.MAC)
	}
	router, err := netip.ParseAddr(gateway)
	if err != nil {
		return bad("gateway", gateway)
	}
	near, err := netip.ParsePrefix(subnet)
	if err != nil {
		return bad("subnet", subnet)
	}
	ip4, err := netip.ParseAddr(tap.IPv4)
	if err != nil {
		return bad("IPv4", tap.IPv4)
	}
	out := nocloud.Interface{
		MAC: mac, Addresses: []netip.Prefix{netip.PrefixFrom(ip4, near.Bits())}, Gateways: []netip.Addr{router}, DNS: []netip.Addr{router},
	}
	if tap.IPv6 == "" || tap.Gateway6 == "" {
		return out, nil
	}
	ip6, err := netip.ParseAddr(tap.IPv6)
	if err != nil {
		return bad("IPv6", tap.IPv6)
	}
	gateway6, err := netip.ParseAddr(tap.Gateway6)
	if err != nil {
		return bad("IPv6 gateway", tap.Gateway6)
	}
	out.Addresses = append(out.Addresses, netip.PrefixFrom(ip6, prefix6))
	out.Gateways = append(out.Gateways, gateway6)
	return out, nil
}
