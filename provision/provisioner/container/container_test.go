package container_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/looktest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

// aContainer is a container's data, with additional members.
func aContainer(more string) string {
	return `{"flist":"docker://example.com/a:1","network":{"network_id":"net","ips":["10.1.1.2"]},"capacity":{"cpu":2,"memory":64}` + more + `}`
}

func TestContainerOfReservation(t *testing.T) {
	f := newWorld(t)
	data := aContainer(fmt.Sprintf(`,"entrypoint":"serve --name \"a b\"","env":{"A":"1\n2"},"interactive":true,`+
		`"secret_env":{"TOKEN":%q},"image_auth":%q,"mounts":[{"volume_id":"1-1","mountpoint":"/data"}]`,
		f.seal("secret_env.TOKEN", "s3cr3t"), f.seal("image_auth", "me:pw")))
	got, err := f.provisioner().Provision(context.Background(), f.reservation(data))
	if err != nil {
		t.Fatal(err)
	}
	if want := f.result(); string(got) != want {
		t.Errorf("result is %s, want %s", got, want)
	}
	spec := f.boxes()["2-1"]
	switch {
	case !slices.Equal(spec.Entrypoint, []string{"serve", "--name", "a b"}):
		t.Errorf("entry point is %q", spec.Entrypoint)
	case spec.Env["A"] != "1\n2" || len(spec.Env) != 1 || spec.Secrets["TOKEN"] != "s3cr3t" || len(spec.Secrets) != 1:
		t.Errorf("env is %q, secrets are %q", spec.Env, spec.Secrets)
	case len(spec.Mounts) != 1 || spec.Mounts[0] != node.MountSpec{Volume: "1-1", Source: "/pools/a/1-1", Target: "/data"}:
		t.Errorf("mounts are %+v", spec.Mounts)
	case spec.CPU != 2 || spec.Memory != 64<<20 || spec.Layer != "/pools/a/2-1.layer" || spec.User != f.user || spec.Hostname != "2-1":
		t.Errorf("spec is %+v", spec)
	case !slices.Equal(spec.DNS, []string{"10.1.1.1"}) || !spec.Interactive || !slices.Equal(spec.Terminal, []string{"10.1.1.2"}) || !slices.Equal(spec.Names, []string{"2-1", "2-1.net"}):
		t.Errorf("spec is %+v", spec)
	case f.Images.Auth() != "me:pw":
		t.Errorf("image_auth is %q", f.Images.Auth())
	case f.members()["2-1"].Namespace != "/run/ns/2-1" || f.members()["2-1"].Name != "2-1" || f.Containers.Starts("2-1") != 1:
		t.Errorf("member is %+v, started %d times", f.members()["2-1"], f.Containers.Starts("2-1"))
	case f.volumes()["2-1.layer"].DiskType != workload.SSD || f.volumes()["2-1.layer"].Size != gib:
		t.Errorf("layer is %+v", f.volumes()["2-1.layer"])
	}
}

func TestLessIsPassedOn(t *testing.T) {
	f := newWorld(t)
	if _, err := f.provisioner().Provision(context.Background(), f.reservation(aContainer(`,"read_only":true,"no_capabilities":true,"non_root":true`))); err != nil {
		t.Fatal(err)
	}
	if spec := f.boxes()["2-1"]; !spec.ReadOnly || !spec.NoCapabilities || !spec.NonRoot {
		t.Errorf("spec is %+v", spec)
	}
}

func TestAPublicAddressIsAnswered(t *testing.T) {
	f := newWorld(t)
	data := strings.Replace(aContainer(""), `"ips"`, `"public_ip6":true,"ips"`, 1)
	got, err := f.provisioner().Provision(context.Background(), f.reservation(data))
	var result workload.ContainerResult
	if err != nil || json.Unmarshal(got, &result) != nil || result.IPv6 != "2001:db8::1" {
		t.Fatalf("result is %s, %v", got, err)
	}
}

func TestOnceMoreIsTheSame(t *testing.T) {
	f := newWorld(t)
	r := f.reservation(aContainer(""))
	first, err := f.provisioner().Provision(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	made := f.left()
	again, err := f.provisioner().Provision(context.Background(), r)
	if err != nil || string(again) != string(first) || !slices.Equal(f.left(), made) {
		t.Fatalf("then %s, %v: %v on the node, was %v", again, err, f.left(), made)
	}
	for range 2 {
		if err := f.provisioner().Decommission(context.Background(), r); err != nil || len(f.left()) != 0 {
			t.Fatalf("decommission: %v, left %v", err, f.left())
		}
	}
}

func TestANodeWithSlowDisksOnlyUsesThose(t *testing.T) {
	f := newWorld(t)
	f.Storage.SetPools(func(all []node.Pool) []node.Pool { return all[1:] })
	if _, err := f.provisioner().Provision(context.Background(), f.reservation(aContainer(""))); err != nil || f.volumes()["2-1.layer"].DiskType != workload.HDD {
		t.Fatalf("layer is %+v, %v", f.volumes()["2-1.layer"], err)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		data  string
		world func(f *world)
		kind  node.Kind
		want  string
	}{
		"somebody else's volume": {aContainer(`,"mounts":[{"volume_id":"9-9","mountpoint":"/d"}]`), nil, node.Refused, `data.mounts[0].volume_id is "9-9"`},
		"what isn't a volume":    {aContainer(`,"mounts":[{"volume_id":"5-1","mountpoint":"/d"}]`), nil, node.Refused, `data.mounts[0].volume_id is "5-1", must be a volume of yours on this node`},
		"a missing volume":       {aContainer(`,"mounts":[{"volume_id":"7-7","mountpoint":"/d"}]`), nil, node.Refused, `data.mounts[0].volume_id is "7-7"`},
		"a volume that comes": {aContainer(`,"mounts":[{"volume_id":"3-1","mountpoint":"/d"}]`),
			func(f *world) { f.owners["3-1"] = reference.Owner{User: f.user, Type: workload.TypeVolume} }, node.Transient, "volume 3-1 isn't there yet"},
		"a volume in whose place is another's": {aContainer(`,"mounts":[{"volume_id":"1-1","mountpoint":"/d"}]`),
			func(f *world) { f.Storage.Put(volumeOf("1-1", 7)) }, node.Transient, "volume 1-1 isn't there yet"},
		"a volume without a label": {aContainer(`,"mounts":[{"volume_id":"1-1","mountpoint":"/d"}]`),
			func(f *world) { f.Storage.Put(node.Filesystem{Name: "1-1"}) }, node.Transient, "volume 1-1 isn't there yet"},
		"a missing network": {strings.Replace(aContainer(""), `"net"`, `"other"`, 1), nil, node.Refused, `data.network.network_id is "other"`},
		"a network that comes": {strings.Replace(aContainer(""), `"net"`, `"other"`, 1),
			func(f *world) { f.known["other"] = reference.Coming }, node.Transient, `network "other" isn't there yet`},
		"an open quote":   {aContainer(`,"entrypoint":"serve \"a"`), nil, node.Invalid, "data.entrypoint"},
		"a bad box":       {aContainer(`,"secret_env":{"A":"` + strings.Repeat("00", 60) + `"}`), nil, node.Invalid, "data.secret_env.A"},
		"flist storage":   {aContainer(`,"flist_storage":"zdb://x"`), nil, node.Invalid, "data.flist_storage"},
		"no cores":        {strings.Replace(aContainer(""), `"cpu":2`, `"cpu":0`, 1), nil, node.Invalid, "data.capacity"},
		"no memory":       {strings.Replace(aContainer(""), `"memory":64`, `"memory":0`, 1), nil, node.Invalid, "data.capacity"},
		"a taken address": {aContainer(""), func(f *world) { f.Fail("Networks.Join", node.Errorf(node.Refused, "10.1.1.2 is taken")) }, node.Refused, "10.1.1.2 is taken"},
		"a bad image":     {aContainer(""), func(f *world) { f.Fail("Images.Pull", node.Errorf(node.Refused, "wrong digest")) }, node.Refused, "wrong digest"},
		"no such program": {aContainer(""), func(f *world) { f.Fail("Containers.Start", node.Errorf(node.Invalid, "no such program")) }, node.Invalid, "no such program"},
		"no space":        {aContainer(""), func(f *world) { f.Fail("Storage.CreateFilesystem", node.Errorf(node.NoSpace, "needs 1 GiB")) }, node.NoSpace, "needs 1 GiB"},
		"no image yet":    {aContainer(""), func(f *world) { f.unready() }, node.Transient, "12 of 80 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			if c.world != nil {
				c.world(f)
			}
			r := f.reservation(c.data)
			_, err := f.provisioner().Provision(context.Background(), r)
			if err == nil || node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %s: %v", node.KindOf(err), err)
			}
			left := slices.DeleteFunc(f.left(), func(s string) bool { return s == "2-1" && f.images()["2-1"].Label != "" })
			if len(left) != 0 || len(f.boxes()) != 0 || len(f.members()) != 0 {
				t.Errorf("left on the node beside its image: %v", left)
			}
			f.mend()
			if err := f.provisioner().Decommission(context.Background(), r); err != nil || len(f.left()) != 0 {
				t.Errorf("decommission: %v, left %v", err, f.left())
			}
		})
	}
}

func TestTheSameNameInBothIsRefused(t *testing.T) {
	f := newWorld(t)
	data := aContainer(fmt.Sprintf(`,"env":{"A":"1"},"secret_env":{"A":%q}`, f.seal("secret_env.A", "2")))
	if _, err := f.provisioner().Provision(context.Background(), f.reservation(data)); node.KindOf(err) != node.Invalid {
		t.Fatalf("error is %v", err)
	}
}

func TestASilentIdentityModuleIsNotTheUsersMistake(t *testing.T) {
	f := newWorld(t)
	f.Fail("Identity.Decrypt", node.Errorf(node.Transient, "no answer"))
	data := aContainer(fmt.Sprintf(`,"secret_env":{"A":%q}`, f.seal("secret_env.A", "2")))
	if _, err := f.provisioner().Provision(context.Background(), f.reservation(data)); node.KindOf(err) != node.Transient {
		t.Fatalf("error is %v", err)
	}
}

func TestTheImageIsPreparedAhead(t *testing.T) {
	f := newWorld(t)
	f.unready()
	p, r := f.provisioner(), f.reservation(aContainer(""))
	got, err := p.Prepare(context.Background(), r)
	if err != nil || got.Ready || got.What != "its image: 12 of 80 MiB (15 %)" {
		t.Fatalf("prepared %+v, %v", got, err)
	}
	f.Images.Hold(nil)
	if got, err := p.Prepare(context.Background(), r); err != nil || !got.Ready {
		t.Fatalf("prepared %+v, %v", got, err)
	}
	f.Fail("Images.Pull", node.Errorf(node.Refused, "wrong digest"))
	if _, err := p.Prepare(context.Background(), r); node.KindOf(err) != node.Refused {
		t.Fatalf("error is %v", err)
	}
	// The reservation's end removes its image.
	if err := p.Decommission(context.Background(), r); err != nil || len(f.left()) != 0 {
		t.Fatalf("decommission: %v, left %v", err, f.left())
	}
}

// only returns the single label and state seen for an ID.
func only(t *testing.T, seen map[provisioner.Label]provisioner.Seen, id string) (provisioner.Label, provisioner.Seen) {
	t.Helper()
	var labels []provisioner.Label
	for l := range seen {
		if l.ID == id {
			labels = append(labels, l)
		}
	}
	if len(labels) != 1 {
		t.Fatalf("saw %v, want %s once", seen, id)
	}
	return labels[0], seen[labels[0]]
}

func TestLookReportsMissingParts(t *testing.T) {
	f := newWorld(t)
	p, r := f.provisioner(), f.reservation(aContainer(""))
	if _, err := p.Provision(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		t.Helper()
		seen, err := p.Look(context.Background())
		if err == nil {
			looktest.Same(t, p, seen)
		}
		if err != nil || len(seen) != 1 {
			t.Fatalf("saw %v, %v", seen, err)
		}
		_, one := only(t, seen, "2-1")
		return one.Drift
	}
	if what := look(); what != "" {
		t.Errorf("a whole one differs: %s", what)
	}
	f.Containers.SetDrift("2-1", "its task is gone")
	if what := look(); what != "its task is gone" {
		t.Errorf("it says %q", what)
	}
	f.Containers.SetDrift("2-1", "")
	f.Containers.Remove("2-1")
	if what := look(); !strings.Contains(what, "the container is gone") {
		t.Errorf("it says %q", what)
	}
	f.Storage.Lose("2-1.layer")
	if what := look(); !strings.Contains(what, "the container is gone") {
		t.Errorf("it says %q", what)
	}
}

// The node's own containers have an image and a layer like users' containers, but
// they are neither workloads nor orphans.
func TestOwnContainersHaveNoUser(t *testing.T) {
	f := newWorld(t)
	p, own := f.provisioner(), "zdb-ssd0-user"
	if _, err := p.Provision(context.Background(), f.reservation(aContainer(""))); err != nil {
		t.Fatal(err)
	}
	f.Containers.Put(node.ContainerSpec{ID: own, User: node.OwnUser})
	f.Images.Put(node.Image{Label: own, User: node.OwnUser}, node.Image{Label: "zdb-hdd0-seq", User: node.OwnUser})
	for _, name := range []string{own, own + ".layer"} {
		f.Storage.Put(node.Filesystem{Name: name, Path: "/pools/a/" + name})
	}
	seen, err := p.Look(context.Background())
	if err == nil {
		looktest.Same(t, p, seen)
	}
	if _, one := only(t, seen, "2-1"); err != nil || len(seen) != 1 || one.Drift != "" {
		t.Errorf("saw %v, %v", seen, err)
	}
	if ids, err := p.List(context.Background()); err != nil || !slices.Equal(ids, []string{"2-1"}) {
		t.Errorf("listed %v, %v", ids, err)
	}
}

func TestAnOrphanIsTakenDownByItsLabelAlone(t *testing.T) {
	f := newWorld(t)
	p, r := f.provisioner(), f.reservation(aContainer(""))
	if _, err := p.Provision(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(context.Background(), provisioner.LabelOf("2-1", hexOf(t, r))); err != nil || len(f.left()) != 0 {
		t.Fatalf("decommission: %v, left %v", err, f.left())
	}
}

// The node dies after each call in turn. The next provision completes the
// workload, a decommission removes all of it.
func TestDyingAfterEachCall(t *testing.T) {
	data := aContainer(`,"mounts":[{"volume_id":"1-1","mountpoint":"/data"}]`)
	whole := newWorld(t)
	if _, err := whole.provisioner().Provision(context.Background(), whole.reservation(data)); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(whole.calls()); n++ {
		for _, end := range []string{"provision", "decommission"} {
			f := newWorld(t)
			r := f.reservation(data)
			f.Die(n)
			if _, err := f.provisioner().Provision(context.Background(), r); err == nil {
				t.Fatalf("it didn't notice that the node died after %d calls", n)
			}
			f.Revive()
			if end == "decommission" {
				if err := f.provisioner().Decommission(context.Background(), r); err != nil || len(f.left()) != 0 {
					t.Errorf("after %d calls (%v): decommission says %v, left %v", n, f.calls()[:n], err, f.left())
				}
				continue
			}
			got, err := f.provisioner().Provision(context.Background(), r)
			if err != nil || string(got) != f.result() || !slices.Equal(f.left(), whole.left()) {
				t.Errorf("after %d calls (%v): %s, %v, on the node %v", n, f.calls()[:n], got, err, f.left())
			}
		}
	}
}
