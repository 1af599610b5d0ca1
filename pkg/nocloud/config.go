package nocloud

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
)

// Limits of a config.
const (
	// MaxDocument is the size of each file of the disk, as it is encoded, in bytes.
	MaxDocument = 256 << 10
	// MaxImage is the size of the whole disk, in bytes: four documents, and the file system around them.
	MaxImage = 4*MaxDocument + 64<<10
	// MaxKey is the size of an SSH key, in bytes.
	MaxKey = 16 << 10
	// MaxItems is the length of each list.
	MaxItems = 64
)

// Config is what a virtual machine is told at its boot.
type Config struct {
	// InstanceID names the machine: with another one cloud-init runs the steps of a first boot again.
	InstanceID string
	// Hostname is one or more labels, at most 64 bytes, which is the kernel's limit.
	Hostname string
	// Interfaces are named eth0, eth1 and so on in the machine, in this order.
	Interfaces []Interface
	// SSHKeys are lines of authorized_keys, for the image's default user.
	SSHKeys []string
	// UserData is a #cloud-config, a script that begins with #!, or another format of cloud-init; not looked into.
	UserData []byte
	// Files are written at the first boot. cloud-init ignores them if UserData has write_files of its own.
	Files []File
}

// Interface is a network interface and its addresses.
type Interface struct {
	// MAC finds the interface in the machine.
	MAC net.HardwareAddr
	// Addresses are addresses of the interface, with the length of their network: 10.1.2.3/24.
	Addresses []netip.Prefix
	// Gateways are the next hops of the default routes, at most one of IPv4 and one of IPv6: in the network of an
	// address, or link-local.
	Gateways []netip.Addr
	DNS      []netip.Addr
	// Search are domains that unqualified names are looked up in.
	Search []string
	// MTU is in bytes; 0 leaves the interface's own.
	MTU int
}

// File is a file that is written in the machine.
type File struct {
	// Path is absolute and clean.
	Path string
	// Mode has permission bits only. The owner is root.
	Mode    fs.FileMode
	Content []byte
}

// String hides the content, so that no log shows it.
func (f File) String() string { return fmt.Sprintf("%s (%d bytes)", f.Path, len(f.Content)) }

// GoString hides the content.
func (f File) GoString() string { return f.String() }

// String hides what may be secret, so that no log shows it.
func (c Config) String() string {
	return fmt.Sprintf("config of %s: hostname %s, %d interfaces, %d SSH keys, user data of %d bytes, %d files",
		c.InstanceID, c.Hostname, len(c.Interfaces), len(c.SSHKeys), len(c.UserData), len(c.Files))
}

// GoString hides what may be secret.
func (c Config) GoString() string { return c.String() }
