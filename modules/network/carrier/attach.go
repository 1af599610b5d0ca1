package carrier

import (
	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// attach opens the link that c names: one that an earlier carrier left, or a
// new one. It stays when this process ends, until forget. made says that it is new.
func attach(id string, c wireguard.Config) (native tun.Device, made bool, err error) {
	fd := -1
	err = netns.Do(c.Namespace, func() error {
		if made, err = free(id, c.Name); err != nil {
			return err
		}
		fd, err = openTun(c.Name)
		return linkError("open", c.Name, err)
	})
	if err != nil {
		return nil, false, err
	}
	// Unmonitored: the library's link monitor would look in this process's namespace.
	native, _, err = tun.CreateUnmonitoredTUNFromFD(fd)
	if err != nil {
		_ = unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 0)
		_ = unix.Close(fd)
		return nil, false, linkError("open", c.Name, err)
	}
	return native, made, nil
}

// attachable says, before anything is changed, why c's link can't be had.
func attachable(id string, c wireguard.Config) error {
	if _, err := netns.Inode(c.Namespace); err != nil {
		return err
	}
	return netns.Do(c.Namespace, func() error {
		_, err := free(id, c.Name)
		return err
	})
}

// free reports whether there is no link of that name yet. One that isn't a
// tun, or another device's, isn't taken over.
func free(id, name string) (bool, error) {
	there, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	switch {
	case errors.As(err, &none):
		return true, nil
	case err != nil:
		return false, linkError("look for", name, err)
	case there.Type() != "tuntap":
		return false, node.Errorf(node.Exist, "cannot use link %s: there is one of that name, of type %s", name, there.Type())
	}
	if alias := there.Attrs().Alias; alias != "" && alias != wireguard.Alias(id) {
		return false, node.Errorf(node.Exist, "cannot use link %s: it is another network's", name)
	}
	return false, nil
}

// openTun opens the link of that name in the namespace of the thread.
func openTun(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// forget makes the link go with its last user. A link that is gone is no error.
func forget(t tun.Device) error {
	conn, err := t.File().SyscallConn()
	if err != nil {
		return nil // closed already
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 0) })
	if err != nil || errors.Is(failed, unix.EBADFD) {
		return nil
	}
	return failed
}

// bringUp configures the link by c, and marks its owner.
func bringUp(id string, c wireguard.Config) error {
	return netns.Do(c.Namespace, func() error {
		l, err := netlink.LinkByName(c.Name)
		if err != nil {
			return linkError("find", c.Name, err)
		}
		a := l.Attrs()
		if a.Alias != wireguard.Alias(id) {
			err = netlink.LinkSetAlias(l, wireguard.Alias(id))
		}
		if err == nil && a.MTU != c.MTU {
			err = netlink.LinkSetMTU(l, c.MTU)
		}
		if err == nil && a.RawFlags&unix.IFF_UP == 0 {
			err = netlink.LinkSetUp(l)
		}
		return linkError("bring up", c.Name, err)
	})
}

// linkBroken says why the link of c can't be used, empty when it can.
func linkBroken(c wireguard.Config, inode uint64) string {
	now, err := netns.Inode(c.Namespace)
	switch {
	case err != nil:
		return "namespace " + c.Namespace + " is gone"
	case now != inode:
		return "namespace " + c.Namespace + " is another one now"
	}
	broken := ""
	err = netns.Do(c.Namespace, func() error {
		l, err := netlink.LinkByName(c.Name)
		if err == nil && l.Attrs().RawFlags&unix.IFF_UP == 0 {
			broken = "link " + c.Name + " is down"
		}
		return err
	})
	if err != nil {
		return "link " + c.Name + " is gone: " + err.Error()
	}
	return broken
}

// linkError gives an error its kind.
func linkError(what, name string, err error) error {
	if err == nil {
		return nil
	}
	kind := node.Internal
	switch {
	case errors.Is(err, unix.EBUSY):
		kind = node.Busy
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EEXIST):
		kind = node.Exist
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		kind = node.Transient
	}
	return node.Errorf(kind, "cannot %s link %s: %w", what, name, err)
}
