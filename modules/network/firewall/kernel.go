package firewall

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// socketBuffer holds the answers to the largest transaction: the kernel sends
// them before they are read, and drops answers that don't fit.
const socketBuffer = 4 << 20

// kernel is a connection to the tables of one namespace.
type kernel struct {
	ns   *os.File
	conn *netlink.Conn
}

// open connects to the namespace at path; empty means the process's namespace.
func open(path string) (*kernel, error) {
	k := &kernel{}
	if path != "" {
		file, err := os.Open(path)
		if err != nil {
			return nil, wrap(err, "cannot open network namespace "+path)
		}
		k.ns = file
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: k.fd()})
	if err != nil {
		k.close()
		return nil, wrap(err, "cannot speak to the firewall")
	}
	k.conn = conn
	return k, nil
}

func (k *kernel) fd() int {
	if k.ns == nil {
		return 0
	}
	return int(k.ns.Fd())
}

func (k *kernel) close() {
	if k.conn != nil {
		_ = k.conn.Close()
	}
	if k.ns != nil {
		k.ns.Close()
	}
}

// change is a connection for one transaction.
func (k *kernel) change() (*nftables.Conn, error) {
	return nftables.New(nftables.WithNetNSFd(k.fd()), nftables.AsLasting(), nftables.WithSockOptions(
		func(c *netlink.Conn) error { return c.SetReadBuffer(socketBuffer) },
		func(c *netlink.Conn) error { return c.SetWriteBuffer(socketBuffer) },
	))
}

// ask sends one request of nftables, each name being its first attributes.
func (k *kernel) ask(kind int, flags netlink.HeaderFlags, family nftables.TableFamily, names ...string) ([]netlink.Message, error) {
	var attributes []netlink.Attribute
	for i, name := range names {
		attributes = append(attributes, netlink.Attribute{Type: uint16(i + 1), Data: append([]byte(name), 0)})
	}
	body, err := netlink.MarshalAttributes(attributes)
	if err != nil {
		return nil, err
	}
	return k.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request | flags},
		Data:   append([]byte{byte(family), unix.NFNETLINK_V0, 0, 0}, body...),
	})
}

// generation is a number that grows with each change of any table of the namespace.
func (k *kernel) generation() (uint32, error) {
	answers, err := k.ask(unix.NFT_MSG_GETGEN, 0, nftables.TableFamilyUnspecified)
	if err != nil {
		return 0, wrap(err, "cannot read the generation of the firewall")
	}
	for _, m := range answers {
		for _, a := range attributesOf(m) {
			if a.Type == unix.NFTA_GEN_ID && len(a.Data) == 4 {
				return uint32(a.Data[0])<<24 | uint32(a.Data[1])<<16 | uint32(a.Data[2])<<8 | uint32(a.Data[3]), nil
			}
		}
	}
	return 0, node.Errorf(node.Internal, "cannot read the generation of the firewall: the kernel doesn't say it")
}

// identity is the namespace's own name, that no other has or will have, on this
// boot or another one. Empty when this kernel has none.
func (k *kernel) identity() string {
	raw, err := k.conn.SyscallConn()
	if err != nil {
		return ""
	}
	var cookie uint64
	failed := raw.Control(func(fd uintptr) {
		cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	})
	boot, unread := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if failed != nil || err != nil || unread != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + strconv.FormatUint(cookie, 10)
}

// attributesOf are a message's, or none when it isn't one of nftables.
func attributesOf(m netlink.Message) []netlink.Attribute {
	if len(m.Data) < 4 {
		return nil
	}
	out, err := netlink.UnmarshalAttributes(m.Data[4:])
	if err != nil {
		return nil
	}
	return out
}

// text is the string attribute of that type.
func text(attributes []netlink.Attribute, kind uint16) string {
	for _, a := range attributes {
		if a.Type == kind {
			return string(bytes.TrimRight(a.Data, "\x00"))
		}
	}
	return ""
}
