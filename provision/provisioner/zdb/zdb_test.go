package zdb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
)

// aNamespace is the data of a 2 GiB namespace, with additional members.
func aNamespace(more string) string {
	return `{"size":2,"mode":"user","disk_type":"SSD"` + more + `}`
}

// aVolume is the size of a volume with namespaces of these sizes.
func aVolume(gibs ...uint64) uint64 {
	size := uint64(64 * mib)
	for _, n := range gibs {
		size += zdbspace.Bound(n * gib)
	}
	return size
}

func (f *world) provision(id, data string) string {
	f.t.Helper()
	r := f.reservation(id, data)
	got, err := f.provisioner().Provision(context.Background(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.homes[id] = zdb.Home{Container: f.homes[id].Container, Reservation: r}
	return string(got)
}

func (f *world) decommission(id, data string) {
	f.t.Helper()
	if err := f.provisioner().Decommission(context.Background(), f.reservation(id, data)); err != nil {
		f.t.Fatal(err)
	}
	delete(f.homes, id)
}

func (f *world) wantLeft(want ...string) {
	f.t.Helper()
	if left := f.left(); !slices.Equal(left, want) {
		f.t.Errorf("on the node are %q, want %q", left, want)
	}
}

func TestNamespaceOfReservation(t *testing.T) {
	f := newWorld(t)
	data := aNamespace(fmt.Sprintf(`,"password":%q,"public":true`, f.seal("s3cr3t")))
	got := f.provision("2-1", data)
	if want := `{"Namespace":"2-1","IP":"192.0.2.7","Port":9900,"Container":"zdb-ssd0-user"}`; got != want {
		t.Errorf("result is %s, want %s", got, want)
	}
	const id = "zdb-ssd0-user"
	volumes, image := f.Storage.Filesystems(), f.Images.All()[id]
	spec, box, volume, layer := f.namespace(id, "2-1"), f.Containers.Specs()[id], volumes[id], volumes[id+".layer"]
	switch {
	case spec != node.ZDBNamespaceSpec{Container: id, Name: "2-1", Size: 2 * gib, Password: "s3cr3t", Public: true, Hash: f.hash(data)}:
		t.Errorf("namespace is %+v", spec)
	case volume.Size != aVolume(2) || volume.Pool != "ssd0" || layer.Pool != "ssd0" || layer.Size != 64*mib:
		t.Errorf("volume is %+v, layer %+v", volume, layer)
	case box.User != node.OwnUser || !box.NoCapabilities || box.CPU != 1 || box.Memory != 64*mib || box.Layer != layer.Path || len(box.DNS) != 0:
		t.Errorf("container is %+v", box)
	case len(box.Mounts) != 1 || box.Mounts[0] != node.MountSpec{Volume: id, Source: volume.Path, Target: "/data"}:
		t.Errorf("mounts are %+v", box.Mounts)
	case strings.Join(box.Entrypoint, " ") != "/zdb --data /data --mode user --no-listen --admin-socket /data/admin.sock"+
		" --handover /data/handover.sock --memory 33554432 --max-buffers 16777216" || box.Env["GOMEMLIMIT"] != "58720256":
		t.Errorf("it runs %q with %q", box.Entrypoint, box.Env)
	case image.Reference != "croft://zdb" || image.User != node.OwnUser:
		t.Errorf("image is %+v", image)
	case !f.Containers.Runs(id) || f.homes["2-1"].Container != id:
		t.Errorf("runs %t, homes %v", f.Containers.Runs(id), f.homes)
	}
}

func TestContainersSyncWhereTheNodeSaysSo(t *testing.T) {
	f := newWorld(t)
	f.sync = true
	f.provision("2-1", aNamespace(""))
	if runs := f.Containers.Specs()["zdb-ssd0-user"].Entrypoint; runs[len(runs)-1] != "--sync" {
		t.Errorf("it runs %q, want --sync at its end", runs)
	}
}

func TestAResultNamesItsPool(t *testing.T) {
	f := newWorld(t)
	for result, want := range map[string]string{
		f.provision("2-1", aNamespace("")): "ssd0", `{"Container":"zdb-a-b-seq"}`: "a-b",
		`{"Namespace":"2-1"}`: "", `{"Container":"2-1"}`: "", `{`: "", "": "",
	} {
		if got := f.provisioner().Pool(json.RawMessage(result)); got != want {
			t.Errorf("the pool in %s is %q, want %q", result, got, want)
		}
	}
}

func TestANodeWithoutIPv4TellsItsIPv6(t *testing.T) {
	f := newWorld(t)
	f.ZDB.SetAddresses("", "")
	_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", aNamespace("")))
	if node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "no address") {
		t.Errorf("without any address: %v", err)
	}
	if left := f.left(); !slices.Equal(left, []string{"image zdb-ssd0-user"}) {
		t.Errorf("left %q", left)
	}
}

// TestANodeWithoutANetworkBringsItsNamespacesBack: after a boot the zdb container is gone, and the node has no address yet.
func TestANodeWithoutANetworkBringsItsNamespacesBack(t *testing.T) {
	for _, told := range []string{"203.0.113.9", ""} {
		f := newWorld(t)
		r := f.reservation("2-1", aNamespace(""))
		f.provision("2-1", aNamespace(""))
		f.homes["2-1"], f.was["2-1"] = zdb.Home{Container: box, Reservation: r, Address: told}, true
		f.Containers.Reboot()
		f.ZDB.SetAddresses("", "")
		raw, err := f.provisioner().Provision(context.Background(), r)
		var result workload.ZDBResult
		switch _ = json.Unmarshal(raw, &result); {
		case told != "" && (err != nil || result.IP != told):
			t.Errorf("the result is %s, %v; want the address that its user was told, %s", raw, err, told)
		case told == "" && node.KindOf(err) != node.Transient:
			t.Errorf("with no address that its user was told: %s, %v", raw, err)
		}
		if c, err := f.Containers.Inspect(box); err != nil || c.State != node.ContainerRunning {
			t.Errorf("told %q: its container is %+v, %v", told, c, err)
		}
	}
}

// TestANodeThatBootsWithIPv6AloneKeepsTheIPv4: a router's advertisement comes before the lease.
func TestANodeThatBootsWithIPv6AloneKeepsTheIPv4(t *testing.T) {
	const told = "203.0.113.9"
	f := newWorld(t)
	r := f.reservation("2-1", aNamespace(""))
	f.provision("2-1", aNamespace(""))
	f.homes["2-1"], f.was["2-1"] = zdb.Home{Container: box, Reservation: r, Address: told}, true
	f.Containers.Reboot()
	f.ZDB.SetAddresses("", "2001:db8::1")
	raw, err := f.provisioner().Provision(context.Background(), r)
	var result workload.ZDBResult
	if _ = json.Unmarshal(raw, &result); err != nil || result.IP != told {
		t.Errorf("the result is %s, %v, want %s", raw, err, told)
	}
}

func TestOnceMoreIsTheSame(t *testing.T) {
	f := newWorld(t)
	first := f.provision("2-1", aNamespace(""))
	made := f.left()
	if again := f.provision("2-1", aNamespace("")); again != first {
		t.Errorf("then %s, first %s", again, first)
	}
	f.wantLeft(made...)
	for range 2 {
		f.decommission("2-1", aNamespace(""))
		f.wantLeft()
	}
	for _, pool := range f.Storage.Pools() {
		if pool.Reserved != 0 {
			t.Errorf("%d bytes are still promised on %s", pool.Reserved, pool.Name)
		}
	}
}

func TestDifferencesAreSet(t *testing.T) {
	f := newWorld(t)
	f.provision("2-1", aNamespace(""))
	change(func(n *node.ZDBNamespaceSpec) { n.Size, n.Public, n.Password = gib, true, "other" })(f)
	f.Storage.Change(box, func(v *node.Filesystem) { v.Size = aVolume(1) })
	f.provision("2-1", aNamespace(""))
	if got := f.namespace(box, "2-1"); got.Size != 2*gib || got.Public || got.Password != "" || f.sizeOf(box) != aVolume(2) {
		t.Errorf("namespace is %+v, volume %+v", got, f.Storage.Filesystems()[box])
	}
}

func TestNamespacesShareAContainer(t *testing.T) {
	f := newWorld(t)
	first := f.provision("2-1", aNamespace(""))
	larger := strings.Replace(aNamespace(""), `"size":2`, `"size":5`, 1)
	second := f.provision("3-1", larger)
	seq := f.provision("4-1", strings.Replace(aNamespace(""), "user", "seq", 1))
	disk := f.provision("5-1", strings.Replace(aNamespace(""), "SSD", "HDD", 1))
	for got, want := range map[string]string{
		first: `"Port":9900,"Container":"zdb-ssd0-user"}`, second: `"Port":9900,"Container":"zdb-ssd0-user"}`,
		seq: `"Port":9901,"Container":"zdb-ssd0-seq"}`, disk: `"Port":9902,"Container":"zdb-hdd0-user"}`,
	} {
		if !strings.HasSuffix(got, want) {
			t.Errorf("result is %s, want %s", got, want)
		}
	}
	if size := f.sizeOf(box); size != aVolume(2, 5) {
		t.Errorf("the volume of two has %d bytes, want %d", size, aVolume(2, 5))
	}
	f.decommission("2-1", aNamespace(""))
	if size := f.sizeOf(box); size != aVolume(5) {
		t.Errorf("the volume of one has %d bytes, want %d", size, aVolume(5))
	}
	f.decommission("3-1", larger)
	f.decommission("4-1", strings.Replace(aNamespace(""), "user", "seq", 1))
	f.wantLeft("container zdb-hdd0-user", "image zdb-hdd0-user", "namespace zdb-hdd0-user/5-1", "port zdb-hdd0-user",
		"volume zdb-hdd0-user", "volume zdb-hdd0-user.layer")
}

// Deleted data isn't always reclaimed at once: the deletion succeeds all the same,
// Look reports the volume's size as drift, and the next Provision shrinks it.
func TestAVolumeThatCannotBeSmallerYet(t *testing.T) {
	f := newWorld(t)
	f.provision("2-1", aNamespace(""))
	f.provision("3-1", aNamespace(""))
	free := f.hold(box, aVolume(2, 1))
	f.decommission("2-1", aNamespace(""))
	if f.sizeOf(box) != aVolume(2, 2) {
		t.Fatal("it is smaller already")
	}
	seen, err := f.provisioner().Look(context.Background())
	if err != nil || !strings.Contains(drift(t, seen, "3-1"), "must have") {
		t.Errorf("saw %v, %v", seen, err)
	}
	free()
	f.provision("3-1", aNamespace(""))
	if f.sizeOf(box) != aVolume(2) {
		t.Error("it isn't smaller")
	}
}

func TestRefusals(t *testing.T) {
	other, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data  func(f *world) string
		world func(f *world)
		kind  node.Kind
		want  string
	}{
		"no size":       {func(*world) string { return `{"size":0,"mode":"user","disk_type":"SSD"}` }, nil, node.Invalid, "size"},
		"no mode":       {func(*world) string { return `{"size":1,"mode":"fast","disk_type":"SSD"}` }, nil, node.Invalid, "mode"},
		"no disk type":  {func(*world) string { return `{"size":1,"mode":"user","disk_type":"NVME"}` }, nil, node.Invalid, "disk_type"},
		"a bad box":     {func(*world) string { return aNamespace(`,"password":"` + strings.Repeat("00", 60) + `"`) }, nil, node.Invalid, "data.password"},
		"a star":        {func(f *world) string { return aNamespace(`,"password":"` + f.seal("*") + `"`) }, nil, node.Invalid, `data.password is "*"`},
		"an empty one":  {func(f *world) string { return aNamespace(`,"password":"` + f.seal("") + `"`) }, nil, node.Invalid, "holds 0 bytes"},
		"a long one":    {func(f *world) string { return aNamespace(`,"password":"` + f.seal(strings.Repeat("x", 64)) + `"`) }, nil, node.Invalid, "holds 64 bytes"},
		"a zero byte":   {func(f *world) string { return aNamespace(`,"password":"` + f.seal("a\x00b") + `"`) }, nil, node.Invalid, "aren't text"},
		"no text":       {func(f *world) string { return aNamespace(`,"password":"` + f.seal("\xff\xfe") + `"`) }, nil, node.Invalid, "aren't text"},
		"another's box": {nil, nil, node.Invalid, "made for another user"},
		"no answer":     {func(f *world) string { return aNamespace(`,"password":"` + f.seal("a") + `"`) }, func(f *world) { f.Fail("Identity.Decrypt", node.Errorf(node.Transient, "silent")) }, node.Transient, "silent"},
		"no such disk":  {nil, func(f *world) { f.Storage.SetPools(func(all []node.Pool) []node.Pool { return all[1:] }) }, node.Refused, "data.disk_type is SSD"},
		"no space": {nil, func(f *world) {
			f.Storage.SetPools(func(all []node.Pool) []node.Pool { all[0].Offered = 2 * gib; return all })
		}, node.NoSpace, "need 2.88 GiB with zdb's overhead, free 2.00 GiB"},
		"a broken pool":  {nil, func(f *world) { f.Storage.Break("ssd0", "read-only") }, node.Transient, "pool ssd0 is broken now: read-only"},
		"no image":       {nil, func(f *world) { f.Fail("Images.Pull", node.Errorf(node.Refused, "no zdb program")) }, node.Refused, "no zdb program"},
		"image to come":  {nil, func(f *world) { f.Images.Hold(&node.Image{Unpacking: true}) }, node.Transient, "is being unpacked"},
		"no port":        {nil, func(f *world) { f.Fail("ZDB.Attach", node.Errorf(node.NoSpace, "all ports are in use")) }, node.NoSpace, "all ports are in use"},
		"a silent zdb":   {nil, func(f *world) { f.ZDB.Silence(1000) }, node.Transient, "it doesn't answer"},
		"doesn't start":  {nil, func(f *world) { f.Fail("Containers.Start", node.Errorf(node.Invalid, "exec format error")) }, node.Invalid, "exec format error"},
		"no namespace":   {nil, func(f *world) { f.Fail("ZDB.Create", node.Errorf(node.Invalid, "bad name")) }, node.Invalid, "bad name"},
		"silent storage": {nil, func(f *world) { f.Fail("Storage.Status", node.Errorf(node.Transient, "no answer")) }, node.Transient, "no answer"},
		"a silent zdbd":  {nil, func(f *world) { f.Fail("ZDB.Servers", node.Errorf(node.Transient, "no answer")) }, node.Transient, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			data := aNamespace("")
			if c.data != nil {
				data = c.data(f)
			}
			if name == "another's box" {
				sealed, _ := workload.SealSecret(f.Identity.ID(), other.ID(), workload.TypeZDB, "password", []byte("theirs"))
				data = aNamespace(`,"password":"` + sealed + `"`)
			}
			if c.world != nil {
				c.world(f)
			}
			_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", data))
			if err == nil || node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "cannot provision zdb namespace 2-1: ") {
				t.Fatalf("error is %s: %v", node.KindOf(err), err)
			}
			left := slices.DeleteFunc(f.left(), func(s string) bool { return !c.kind.Final() && strings.HasPrefix(s, "image") })
			if len(left) != 0 {
				t.Errorf("left on the node: %v", left)
			}
			if _, known := f.Get("2-1"); known {
				t.Error("it is said to be there")
			}
		})
	}
}

func TestABoxOfTheSeedsTime(t *testing.T) {
	f := newWorld(t)
	sealed, err := sign.Seal(f.Identity.ID(), []byte("s3cr3t"))
	if err != nil {
		t.Fatal(err)
	}
	r := f.reservation("2-1", aNamespace(fmt.Sprintf(`,"password":"%x"`, sealed)))
	if _, err := f.provisioner().Provision(context.Background(), r); node.KindOf(err) != node.Invalid {
		t.Errorf("version 2 takes it: %v", err)
	}
	r.Version = 1
	if _, err := f.provisioner().Provision(context.Background(), r); err != nil || f.namespace(box, "2-1").Password != "s3cr3t" {
		t.Errorf("version 1: %v, %+v", err, f.ZDB.Namespaces(pathOf(box)))
	}
}

// A failing attempt takes back its own changes only.
func TestAFailureLeavesOthersAlone(t *testing.T) {
	for _, step := range []string{"Storage.ResizeFilesystem", "ZDB.Create"} {
		for _, kind := range []node.Kind{node.NoSpace, node.Transient, node.Invalid} {
			f := newWorld(t)
			f.provision("2-1", aNamespace(""))
			made, size := f.left(), f.sizeOf(box)
			f.FailNext(step, 1, node.Errorf(kind, "it fails"))
			_, err := f.provisioner().Provision(context.Background(), f.reservation("3-1", aNamespace("")))
			if node.KindOf(err) != kind || !slices.Equal(f.left(), made) || f.sizeOf(box) != size {
				t.Errorf("%s fails with %s: %v; on the node %q, volume has %d, had %d", step, kind, err, f.left(), f.sizeOf(box), size)
			}
		}
	}
}

func TestTheImageIsPreparedAhead(t *testing.T) {
	f := newWorld(t)
	f.Images.Hold(&node.Image{Unpacking: true})
	p, r := f.provisioner(), f.reservation("2-1", aNamespace(""))
	got, err := p.Prepare(context.Background(), r)
	if err != nil || got.Ready || got.What != "zdb's image is being unpacked" {
		t.Fatalf("prepared %+v, %v", got, err)
	}
	f.Images.Hold(nil)
	if got, err := p.Prepare(context.Background(), r); err != nil || !got.Ready || len(f.Containers.Specs())+len(f.Storage.Filesystems())+len(f.ZDB.Ports()) != 0 {
		t.Fatalf("prepared %+v, %v; on the node %q", got, err, f.left())
	}
	f.decommission("2-1", aNamespace(""))
	f.wantLeft()
	f.Fail("Images.Pull", node.Errorf(node.Refused, "no zdb program"))
	if _, err := p.Prepare(context.Background(), r); node.KindOf(err) != node.Refused || len(f.left()) != 0 {
		t.Fatalf("error is %v, left %v", err, f.left())
	}
}

// An existing zdb container is repaired even when zdb's program is gone.
func TestAnImageThatIsHereIsTaken(t *testing.T) {
	f := newWorld(t)
	f.provision("2-1", aNamespace(""))
	f.Fail("Images.Pull", node.Errorf(node.Refused, "no zdb program"))
	f.Containers.Remove(box)
	f.Containers.Reboot()
	if got, err := f.provisioner().Prepare(context.Background(), f.reservation("2-1", aNamespace(""))); err != nil || !got.Ready {
		t.Fatalf("prepared %+v, %v", got, err)
	}
	f.provision("2-1", aNamespace(""))
	if !f.Containers.Runs(box) {
		t.Error("it doesn't run")
	}
}

func TestAZDBThatNeedsItsTimeIsWaitedFor(t *testing.T) {
	f := newWorld(t)
	f.wait = time.Minute
	f.ZDB.Silence(3)
	f.provision("2-1", aNamespace(""))
	if f.ZDB.Silent() != 0 {
		t.Error("it wasn't asked again")
	}
}

func TestExpiredNamespaceIsShut(t *testing.T) {
	f := newWorld(t)
	data := aNamespace(fmt.Sprintf(`,"password":%q,"public":true`, f.seal("s3cr3t")))
	f.provision("2-1", data)
	p, r := f.provisioner(), f.reservation("2-1", data)
	if err := p.Stop(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	got := f.namespace(box, "2-1")
	if got.Public || got.Password == "s3cr3t" || len(got.Password) < 20 || got.Size != 2*gib || !p.HoldsData() {
		t.Errorf("namespace is %+v", got)
	}
	f.provision("2-1", data)
	if got := f.namespace(box, "2-1"); !got.Public || got.Password != "s3cr3t" {
		t.Errorf("namespace is %+v", got)
	}
	delete(f.homes, "2-1") // its result was replaced by its end's, and the node has restarted
	f.was["2-1"] = true
	if err := p.Stop(context.Background(), r); err != nil || f.namespace(box, "2-1").Password == "s3cr3t" {
		t.Errorf("stop: %v", err)
	}
	f.ZDB.Kill(box)
	if err := p.Stop(context.Background(), r); err == nil {
		t.Error("it is said to be shut by a zdb that doesn't answer")
	}
}

func TestDefaults(t *testing.T) {
	p := zdb.New(zdb.Config{})
	if p.CPU != zdb.DefaultCPU || p.Memory != zdb.DefaultMemory || p.Wait != zdb.DefaultWait {
		t.Errorf("defaults are %+v", p.Config)
	}
}
