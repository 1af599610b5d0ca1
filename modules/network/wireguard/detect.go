package wireguard

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// detectTime bounds how long the kernel may take to load its module, on a slow machine that has just booted: a tunnel that the kernel
// could have would be the carrier's until croftd starts again.
const detectTime = 30 * time.Second

// Detect reports whether the kernel's WireGuard works, by making a link and
// removing it, and why not.
func Detect(ctx context.Context) (kernel bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, detectTime)
	defer cancel()
	return detect(ctx, tryLink)
}

func detect(ctx context.Context, try func() error) (kernel bool, why string) {
	done := make(chan error, 1)
	go func() { done <- try() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errors.New("it took too long to make a link")
	}
	switch {
	case err == nil:
		return true, ""
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, "the kernel has no WireGuard"
	case errors.Is(err, unix.EPERM):
		return false, "making a link is not allowed"
	}
	return false, "the kernel's WireGuard doesn't work: " + err.Error()
}

// tryLink makes a link that nobody uses, and removes it.
func tryLink() error {
	link := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: passingName()}, LinkType: LinkType}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	return errors.Wrap(netlink.LinkDel(link), "cannot remove the link again")
}
