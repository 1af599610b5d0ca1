package wireguard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// namespaceWith is a namespace with a link of that name and label, which isn't WireGuard's.
func namespaceWith(t *testing.T, name, alias string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tenant")
	make := func() error {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		return netlink.LinkSetAlias(link, alias)
	}
	if err := netns.Make(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Remove(path) })
	if err := netns.Do(path, make); err != nil {
		t.Fatal(err)
	}
	return path
}

func hasLink(path, name string) bool {
	return netns.Do(path, func() error { _, err := netlink.LinkByName(name); return err }) == nil
}

// TestAPlaceOutlivesItsFile: another namespace behind the same path doesn't
// hide the one that a device is in.
func TestAPlaceOutlivesItsFile(t *testing.T) {
	path := namespaceWith(t, "wg0", "other")
	p := places{}
	if err := p.note("net1", path, "wg0"); err != nil {
		t.Fatal(err)
	}
	if err := netns.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := netns.Make(path); err != nil {
		t.Fatal(err)
	}
	if hasLink(path, "wg0") || !hasLink(p["net1"].path(), "wg0") {
		t.Error("the place isn't that of the old namespace")
	}
	old := p["net1"].file
	if err := p.note("net1", path, "wg0"); err != nil {
		t.Fatal(err)
	}
	if hasLink(p["net1"].path(), "wg0") {
		t.Error("the place isn't that of the new namespace")
	}
	if _, err := old.Stat(); err == nil {
		t.Error("the old namespace is still open")
	}
	file := p["net1"].file
	p.forget("net1")
	p.forget("net1")
	if _, err := file.Stat(); err == nil || len(p) != 0 {
		t.Errorf("forgotten, and there are %d places, its file %v", len(p), err)
	}
}

// TestLeavePlace: only the device's own link goes with it.
func TestLeavePlace(t *testing.T) {
	path := namespaceWith(t, "wg0", Alias("net1"))
	for _, name := range []string{"wg0", "wg1"} {
		p := places{}
		if err := p.note("net1", path, name); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.leave("net1"); err != nil || len(p) != 0 {
				t.Errorf("left %s: %v, %d places", name, err, len(p))
			}
		}
	}
	if !hasLink(path, "wg0") {
		t.Error("a link that isn't WireGuard's was removed")
	}
	if err := (places{}).note("net1", filepath.Join(t.TempDir(), "none"), "wg0"); node.KindOf(err) != node.NotExist {
		t.Errorf("no namespace: %v", err)
	}
	before := openFiles(t)
	p := places{}
	for range 3 {
		if err := p.note("net1", path, "wg0"); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFiles(t); after != before+1 {
		t.Errorf("%d files open for one place", after-before)
	}
	p.forget("net1")
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
