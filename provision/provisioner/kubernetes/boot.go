package kubernetes

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/nocloud"
	"github.com/croft-edge/croft/pkg/node"
)

// bootData is the user data of the config disk, a #cloud-config in JSON, which is YAML: an image with cloud-init
// understands it but for Croft.
type bootData struct {
	SSHAuthorizedKeys []string `json:"ssh_authorized_keys,omitempty"`
	// SSHImportID has accounts whose keys the VM fetches: gh:NAME.
	SSHImportID []string `json:"ssh_import_id,omitempty"`
	Croft       cluster  `json:"croft"`
}

// cluster is what the image's init needs to make a cluster or to join one.
type cluster struct {
	// Secret is the cluster's shared secret.
	Secret string `json:"cluster_secret"`
	// Masters are addresses of the control plane; none: this machine is it.
	Masters []string `json:"master_ips"`
	// Address is this machine's.
	Address string `json:"ip"`
}

const cloudConfig = "#cloud-config\n"

// prefix6 is the length of a network's IPv6 prefix.
const prefix6 = 64

// configDisk makes the image of the config disk.
func (r readied) configDisk(tap node.Tap) ([]byte, error) {
	data := bootData{
		SSHAuthorizedKeys: r.keys,
		Croft:             cluster{Secret: string(r.secret), Masters: append([]string{}, r.masters...), Address: tap.IPv4},
	}
	for _, name := range r.accounts {
		data.SSHImportID = append(data.SSHImportID, "gh:"+name)
	}
	user, err := json.Marshal(data)
	if err != nil {
		return nil, errors.Wrap(err, "cannot write its boot data")
	}
	link, err := linkOf(tap, r.gateway, r.subnet)
	if err != nil {
		return nil, err
	}
	var image bytes.Buffer
	err = nocloud.Write(&image, nocloud.Config{
		InstanceID: r.id, Hostname: r.id, Interfaces: []nocloud.Interface{link}, SSHKeys: r.keys, UserData: append([]byte(cloudConfig), user...),
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
