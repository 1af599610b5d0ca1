package nocloud

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/pkg/fielderror"
)

// Names of the files in the disk's root.
const (
	MetaData      = "meta-data"
	UserData      = "user-data"
	NetworkConfig = "network-config"
	VendorData    = "vendor-data"
)

// cloudConfig is the first line of a document that cloud-init takes for its own YAML.
const cloudConfig = "#cloud-config\n"

// text is always written in double quotes. cloud-init reads YAML 1.1, where much that is plain text in 1.2 is
// something else: 52:54:00:12:34:56 is a number of base 60, no a truth value.
type text string

// MarshalYAML implements yaml.Marshaler.
func (t text) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: string(t)}, nil
}

type metaData struct {
	InstanceID    text   `yaml:"instance-id"`
	LocalHostname text   `yaml:"local-hostname"`
	PublicKeys    []text `yaml:"public-keys,omitempty"`
}

type networkConfig struct {
	Version   int                 `yaml:"version"`
	Ethernets map[string]ethernet `yaml:"ethernets"`
}

type ethernet struct {
	Match       match        `yaml:"match"`
	SetName     text         `yaml:"set-name"` // renderers other than netplan know interfaces by name only
	DHCP4       bool         `yaml:"dhcp4"`
	DHCP6       bool         `yaml:"dhcp6"`
	MTU         int          `yaml:"mtu,omitempty"`
	Addresses   []text       `yaml:"addresses,omitempty"`
	Routes      []route      `yaml:"routes,omitempty"` // gateway4 and gateway6 are deprecated
	Nameservers *nameservers `yaml:"nameservers,omitempty"`
}

type match struct {
	MACAddress text `yaml:"macaddress"` // in lower case, as the kernel has it
}

type route struct {
	To  text `yaml:"to"` // older versions of cloud-init don't know "default"
	Via text `yaml:"via"`
}

type nameservers struct {
	Addresses []text `yaml:"addresses,omitempty"`
	Search    []text `yaml:"search,omitempty"`
}

type vendorData struct {
	WriteFiles []writeFile `yaml:"write_files"`
}

type writeFile struct {
	Path        text `yaml:"path"`
	Permissions text `yaml:"permissions"`
	Encoding    text `yaml:"encoding"`
	Content     text `yaml:"content"`
}

// Documents returns the files of the config's disk, by name. Errors: a *fielderror.Error for a field that can't be
// written, or for a document that is longer than MaxDocument.
func (c Config) Documents() (map[string][]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	out := map[string][]byte{UserData: c.UserData}
	var err error
	if out[MetaData], err = encode(metaData{InstanceID: text(c.InstanceID), LocalHostname: text(c.Hostname), PublicKeys: texts(c.SSHKeys)}); err != nil {
		return nil, err
	}
	if len(c.Interfaces) > 0 {
		if out[NetworkConfig], err = encode(network(c.Interfaces)); err != nil {
			return nil, err
		}
	}
	if len(c.Files) > 0 {
		files, err := encode(vendorData{writeFiles(c.Files)})
		if err != nil {
			return nil, err
		}
		out[VendorData] = append([]byte(cloudConfig), files...)
	}
	for name, content := range out {
		if len(content) > MaxDocument {
			return nil, fielderror.New(name, fielderror.Words(fmt.Sprintf("%d bytes long", len(content))), "at most %d bytes", MaxDocument)
		}
	}
	return out, nil
}

func encode(document any) ([]byte, error) {
	out, err := yaml.Marshal(document)
	return out, errors.Wrap(err, "cannot encode a document of the config disk")
}

func network(interfaces []Interface) networkConfig {
	out := networkConfig{Version: 2, Ethernets: map[string]ethernet{}}
	for i, n := range interfaces {
		name := interfaceName(i)
		e := ethernet{
			Match: match{text(n.MAC.String())}, SetName: text(name), MTU: n.MTU, Addresses: printed(n.Addresses),
		}
		for _, gateway := range n.Gateways {
			to := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			if gateway.Is4() {
				to = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			}
			e.Routes = append(e.Routes, route{To: text(to.String()), Via: text(gateway.String())})
		}
		if len(n.DNS)+len(n.Search) > 0 {
			e.Nameservers = &nameservers{Addresses: printed(n.DNS), Search: texts(n.Search)}
		}
		out.Ethernets[name] = e
	}
	return out
}

// interfaceName is the name of an interface in the machine.
func interfaceName(i int) string { return "eth" + strconv.Itoa(i) }

func writeFiles(files []File) []writeFile {
	out := make([]writeFile, len(files))
	for i, f := range files {
		out[i] = writeFile{
			Path: text(f.Path), Permissions: text(fmt.Sprintf("%04o", f.Mode)), Encoding: "b64",
			Content: text(base64.StdEncoding.EncodeToString(f.Content)),
		}
	}
	return out
}

func texts(list []string) []text {
	var out []text
	for _, s := range list {
		out = append(out, text(s))
	}
	return out
}

func printed[T fmt.Stringer](list []T) []text {
	var out []text
	for _, v := range list {
		out = append(out, text(v.String()))
	}
	return out
}

// Decode is the reverse of Documents: the config of a disk's files. Other files are ignored, and so are members of
// the documents that this package doesn't write.
func Decode(files map[string][]byte) (Config, error) {
	var meta metaData
	if err := decode(MetaData, files, &meta); err != nil {
		return Config{}, err
	}
	c := Config{InstanceID: string(meta.InstanceID), Hostname: string(meta.LocalHostname)}
	for _, key := range meta.PublicKeys {
		c.SSHKeys = append(c.SSHKeys, string(key))
	}
	if len(files[UserData]) > 0 {
		c.UserData = slices.Clone(files[UserData])
	}
	var net networkConfig
	if err := decode(NetworkConfig, files, &net); err != nil {
		return Config{}, err
	}
	for i := range len(net.Ethernets) {
		e, ok := net.Ethernets[interfaceName(i)]
		if !ok {
			return Config{}, fielderror.New(NetworkConfig+".ethernets", fielderror.Missing, "eth0, eth1 and so on")
		}
		n, err := e.decode()
		if err != nil {
			return Config{}, errors.WithMessagef(err, "cannot read %s of %s", interfaceName(i), NetworkConfig)
		}
		c.Interfaces = append(c.Interfaces, n)
	}
	var vendor vendorData
	if err := decode(VendorData, files, &vendor); err != nil {
		return Config{}, err
	}
	for i, f := range vendor.WriteFiles {
		file, err := f.decode()
		if err != nil {
			return Config{}, errors.WithMessagef(err, "cannot read file %d of %s", i, VendorData)
		}
		c.Files = append(c.Files, file)
	}
	return c, c.Validate()
}

// decode reads a document, if it is there. A parser's error may show text of a file's content.
func decode(name string, files map[string][]byte, into any) error {
	content := files[name]
	if len(content) > MaxDocument {
		return fielderror.New(name, fielderror.Words(fmt.Sprintf("%d bytes long", len(content))), "at most %d bytes", MaxDocument)
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		return fielderror.New(name, fielderror.Words("unreadable"), "YAML as this package writes it")
	}
	return nil
}

func (e ethernet) decode() (Interface, error) {
	n := Interface{MTU: e.MTU}
	var err error
	if n.MAC, err = net.ParseMAC(string(e.Match.MACAddress)); err != nil {
		return Interface{}, errors.Wrap(err, "cannot read a hardware address")
	}
	if n.Addresses, err = parse(e.Addresses, netip.ParsePrefix); err != nil {
		return Interface{}, err
	}
	for _, r := range e.Routes {
		via, err := netip.ParseAddr(string(r.Via))
		if err != nil {
			return Interface{}, errors.Wrap(err, "cannot read a gateway")
		}
		n.Gateways = append(n.Gateways, via)
	}
	if e.Nameservers == nil {
		return n, nil
	}
	for _, domain := range e.Nameservers.Search {
		n.Search = append(n.Search, string(domain))
	}
	n.DNS, err = parse(e.Nameservers.Addresses, netip.ParseAddr)
	return n, err
}

func parse[T any](list []text, one func(string) (T, error)) ([]T, error) {
	var out []T
	for _, s := range list {
		v, err := one(string(s))
		if err != nil {
			return nil, errors.Wrap(err, "cannot read an address")
		}
		out = append(out, v)
	}
	return out, nil
}

func (f writeFile) decode() (File, error) {
	mode, err := strconv.ParseUint(string(f.Permissions), 8, 9)
	if err != nil {
		return File{}, errors.Wrap(err, "cannot read its permissions")
	}
	content, err := base64.StdEncoding.DecodeString(string(f.Content))
	if err != nil || f.Encoding != "b64" {
		return File{}, errors.New("cannot read its content: it must be base64, with encoding b64")
	}
	if len(content) == 0 {
		content = nil
	}
	return File{Path: string(f.Path), Mode: fs.FileMode(mode), Content: content}, nil
}
