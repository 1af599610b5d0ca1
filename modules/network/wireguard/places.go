package wireguard

import (
	"os"
	"strconv"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// place is where a device's link is. The namespace is kept open to reach the link
// when the namespace's file is removed or replaced: a remaining user of the namespace
// (an open socket is enough) keeps the link, and its port.
type place struct {
	file  *os.File
	inode uint64
	name  string
}

// places are those of all devices, by ID.
type places map[string]place

// note remembers where the link of device id is.
func (p places) note(id, namespace, name string) error {
	inode, err := netns.Inode(namespace)
	if err != nil {
		return err
	}
	old, known := p[id]
	if known && old.inode == inode {
		p[id] = place{old.file, inode, name}
		return nil
	}
	file, err := os.Open(namespace)
	if err != nil {
		return failed("note the namespace of", name, err)
	}
	if known {
		_ = old.file.Close()
	}
	p[id] = place{file, inode, name}
	return nil
}

// leave removes the link of device id at its last place, and forgets the place.
func (p places) leave(id string) error {
	at, known := p[id]
	if !known {
		return nil
	}
	err := netns.Do(at.path(), func() error {
		link, err := netlink.LinkByName(at.name)
		if err != nil {
			return failed("find", at.name, err)
		}
		if link.Type() != LinkType || link.Attrs().Alias != Alias(id) {
			return nil
		}
		return failed("remove", at.name, netlink.LinkDel(link))
	})
	if err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	p.forget(id)
	return nil
}

// forget lets go of the namespace of device id.
func (p places) forget(id string) {
	if at, known := p[id]; known {
		_ = at.file.Close()
		delete(p, id)
	}
}

// path leads to the namespace while the file is open.
func (p place) path() string {
	return "/proc/self/fd/" + strconv.FormatUint(uint64(p.file.Fd()), 10)
}
