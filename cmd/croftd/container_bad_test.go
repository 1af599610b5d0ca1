package main_test

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// refusal is the explorer's or the node's error for a reservation.
func (b *boxes) refusal(r *workload.Reservation) string {
	b.Helper()
	id, err := b.Client.Reserve(b.Context(), r)
	if err != nil {
		return err.Error()
	}
	r.ID = id
	return b.Result(r, workload.StateError).Error
}

// TestBadContainers: each causes a clear error and no other effect.
func TestBadContainers(t *testing.T) {
	b := newBoxes(t, "--max-image-size", "64MiB")
	other, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	theirNet := b.Push(b.Networks(other, "theirs", b.Part(b.n, "10.1.3.0/24", 3002, ""))[0])
	b.Result(theirNet, workload.StateOK)
	theirs := b.theirVolume(other)
	mine, second := b.volume(), b.volume()
	standing, url := b.run(nil) // 10.1.2.10 is taken
	before := b.n.Left()
	mount := func(volume, at string) func(*workload.Container) {
		return func(c *workload.Container) { c.Mounts = []workload.Mount{{VolumeID: volume, Mountpoint: at}} }
	}
	ips := func(all ...string) func(*workload.Container) {
		return func(c *workload.Container) { c.Network.IPs = addresses(all...) }
	}
	for name, c := range map[string]struct {
		change func(*workload.Container)
		says   string
	}{
		"somebody else's volume":    {mount(theirs.ID, "/data"), "data.mounts[0].volume_id"},
		"a volume that isn't there": {mount("4711-1", "/data"), "data.mounts[0].volume_id"},
		"a volume's ID that climbs": {mount("../1-1", "/data"), "data.mounts[0].volume_id"},
		"a relative mount point":    {mount(mine.ID, "data"), "data.mounts[0].mountpoint"},
		"a mount that climbs":       {mount(mine.ID, "/data/../up"), ".."},
		"a mount over all":          {mount(mine.ID, "/x/.."), "data.mounts[0].mountpoint"},
		"a mount over /proc":        {mount(mine.ID, "/proc/self"), "/proc"},
		"a mount over devices":      {mount(mine.ID, "/dev"), "/dev"},
		"two mounts at one place": {func(c *workload.Container) {
			c.Mounts = []workload.Mount{nodetest.Mount(mine, "/a"), nodetest.Mount(mine, "/a/")}
		}, "data.mounts[1].mountpoint"},
		"two volumes with their IDs swapped": {func(c *workload.Container) {
			c.Mounts = []workload.Mount{b.MountByHash(mine, "/a"), b.MountByHash(second, "/b")}
			c.Mounts[0].VolumeID, c.Mounts[1].VolumeID = second.ID, mine.ID
		}, "data.mounts[0].volume_hash is " + b.HashOf(mine) + ", must be the hash of the reservation of volume " + second.ID},
		"a network's hash that isn't its": {func(c *workload.Container) { c.Network.NetworkHash = b.HashOf(mine) }, "data.network.network_hash is " + b.HashOf(mine)},
		"another's network's hash":        {func(c *workload.Container) { c.Network.NetworkHash = b.HashOf(theirNet) }, "data.network.network_hash"},
		"a hash in capitals":              {func(c *workload.Container) { c.Network.NetworkHash = strings.ToUpper(b.HashOf(mine)) }, "data.network.network_hash"},
		"somebody else's network":         {func(c *workload.Container) { c.Network.NetworkID = "theirs" }, "data.network.network_id"},
		"a network that isn't there":      {func(c *workload.Container) { c.Network.NetworkID = "nowhere" }, "data.network.network_id"},
		"no address":                      {ips(), "ips"},
		"an empty address":                {func(c *workload.Container) { c.Network.IPs = []net.IP{{}} }, "ips"},
		"the same address twice":          {ips("10.1.2.20", "10.1.2.20"), "10.1.2.20"},
		"another's address":               {ips("10.1.2.10"), "10.1.2.10"},
		"the gateway's address":           {ips("10.1.2.1"), "gateway"},
		"an address of elsewhere":         {ips("10.1.3.5"), "10.1.3.5"},
		"a zero in a variable":            {func(c *workload.Container) { c.Env["A"] = "x\x00y" }, "data.env.A"},
		"a variable with =":               {func(c *workload.Container) { c.Env["A=B"] = "x" }, "data.env"},
		"a newline in a name":             {func(c *workload.Container) { c.Env["A\nB"] = "x" }, "data.env"},
		"a variable twice":                {func(c *workload.Container) { c.Env["A"] = "x"; c.SecretEnv["A"] = b.SealEnv(b.n, b.User, "A", "y") }, "data.secret_env.A"},
		"another's secret":                {func(c *workload.Container) { c.SecretEnv["A"] = b.SealEnv(b.n, other, "A", "y") }, "data.secret_env.A"},
		"another variable's secret":       {func(c *workload.Container) { c.SecretEnv["A"] = b.SealEnv(b.n, b.User, "B", "y") }, "data.secret_env.A"},
		"a zero in a secret":              {func(c *workload.Container) { c.SecretEnv["A"] = b.SealEnv(b.n, b.User, "A", "x\x00y") }, "data.secret_env.A"},
		"unbalanced quotes":               {func(c *workload.Container) { c.Entrypoint = `/bin/server -say "one` }, "data.entrypoint"},
		"no processor":                    {func(c *workload.Container) { c.Capacity.CPU = 0 }, "data.capacity"},
		"no memory":                       {func(c *workload.Container) { c.Capacity.Memory = 0 }, "data.capacity"},
		"a flist's storage":               {func(c *workload.Container) { c.FlistStorage = "zdb://x" }, "data.flist_storage"},
		"an image outside":                {func(c *workload.Container) { c.FList = "/etc" }, "/etc"},
		"an image that climbs out":        {func(c *workload.Container) { c.FList = b.Path("images") + "/../n1/s" }, "flist"},
		"an image that isn't there":       {func(c *workload.Container) { c.FList = b.Path("images", "nothing") }, "nothing"},
		"an image through a link":         {func(c *workload.Container) { c.FList = b.linked() }, "link"},
		"a registry on the node":          {func(c *workload.Container) { c.FList = "docker://127.0.0.1:5000/app:1" }, "127.0.0.1"},
		"a registry without a name":       {func(c *workload.Container) { c.FList = "docker://" }, "flist"},
		"the node's own image":            {func(c *workload.Container) { c.FList = "croft://zdb" }, "data.flist"},
		"for another architecture":        {func(c *workload.Container) { c.FList = b.Image("other", imagetest.Server().Platform("linux", "s390x")) }, "s390x"},
		"too large":                       {func(c *workload.Container) { c.FList = b.large() }, "64"},
		"a manifest bomb":                 {func(c *workload.Container) { c.FList = b.bomb() }, "index.json"},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.Container(b.n, func(data *workload.Container) {
				data.Network.IPs = addresses("10.1.2.99")
				c.change(data)
			})
			mentions(t, "the error", b.refusal(r), c.says)
			b.nothing(before)
		})
	}
	// Refused reservations don't affect accepted ones.
	b.shell.MustGet(url + "/")
	b.only(standing)
}

// theirVolume is another user's volume on the same node.
func (b *boxes) theirVolume(other sign.KeyPair) *workload.Reservation {
	b.Helper()
	r := b.Volume(b.n.ID, 1, time.Hour)
	r.User = other.ID()
	if err := r.Sign(other.Private()); err != nil {
		b.Fatal(err)
	}
	b.Push(r)
	b.Result(r, workload.StateOK)
	return r
}

// linked is a symbolic link in the folder of images that points outside.
func (b *boxes) linked() string {
	b.Helper()
	path := b.Path("images", "link")
	if err := os.Symlink(b.n.StateDir(), path); err != nil {
		b.Fatal(err)
	}
	return path
}

// large is an image above --max-image-size that compresses well.
func (b *boxes) large() string {
	b.Helper()
	return b.Image("large", imagetest.Server().File("/zeros", strings.Repeat("\x00", 80<<20), 0o644))
}

// bomb is an index that refers to itself recursively.
func (b *boxes) bomb() string {
	b.Helper()
	path := b.Image("bomb", imagetest.Server())
	index := filepath.Join(path, "index.json")
	raw, err := os.ReadFile(index)
	if err != nil {
		b.Fatal(err)
	}
	var doc struct {
		SchemaVersion int               `json:"schemaVersion"`
		Manifests     []json.RawMessage `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		b.Fatal(err)
	}
	for len(doc.Manifests) < 1<<16 {
		doc.Manifests = append(doc.Manifests, doc.Manifests...)
	}
	if raw, err = json.Marshal(doc); err == nil {
		err = os.WriteFile(index, raw, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// TestHostileImage: images with set-id files, device nodes, whiteouts and links to the
// outside run, and gain no access that the container must not have.
func TestHostileImage(t *testing.T) {
	b := newBoxes(t)
	before := b.n.Left()
	volume := b.volume()
	image := b.Image("hostile", imagetest.Server().
		Device("/dev-null", tar.TypeChar, 1, 3).Device("/disk", tar.TypeBlock, 7, 0).
		File("/set-id", "#!/bin/server", 0o6755).
		Symlink("/up", "../../../../../../etc").Symlink("/etc-of-node", "/proc/1/root/etc").Symlink("/data", "/up").
		Layer().File("/seen", "x", 0o644).Layer().Whiteout("/seen"))
	r, url := b.run(func(c *workload.Container) {
		c.FList = image
		c.Mounts = []workload.Mount{nodetest.Mount(volume, "/up/here")}
	})
	list := b.shell.MustGet(url + "/list?path=/")
	if strings.Contains(list, "seen") {
		t.Error("a whiteout was not heeded")
	}
	for _, path := range []string{"/disk", "/dev-null"} {
		if got, err := b.Get(b.shell.Path(), url+"/read?path="+path, time.Minute); err == nil {
			t.Errorf("the image's device %s can be read: %d bytes", path, len(got))
		}
	}
	b.shell.MustDo("PUT", url+"/write?path=/etc/here/note", "in the volume")
	if got := b.note(volume); got != "in the volume" {
		t.Errorf("the volume has %q", got)
	}
	if _, err := os.Stat("/etc/here"); err == nil {
		t.Error("a mount point was made on the node")
	}
	b.gone(r)
	b.gone(volume)
	b.nothing(before)
}

func (b *boxes) note(volume *workload.Reservation) string {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join(b.n.VolumePath(volume), "note"))
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(raw)
}
