package container_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// update is a node with a running container, and the reservation of its replacement.
func update(t *testing.T) (f *world, older, newer *workload.Reservation) {
	t.Helper()
	f = newWorld(t)
	older = f.reservation(aContainer(`,"name":"web","mounts":[{"volume_id":"1-1","mountpoint":"/data"}]`))
	newer = f.reservation(aContainer(`,"name":"web","entrypoint":"new","mounts":[{"volume_id":"1-1","mountpoint":"/data"}]`))
	newer.ID = "3-1"
	if _, err := f.provisioner().Provision(context.Background(), older); err != nil {
		t.Fatal(err)
	}
	f.Forget()
	return f, older, newer
}

func placeOf(older *workload.Reservation) provisioner.Place {
	return provisioner.Place{Others: []*workload.Reservation{older}, Older: older}
}

func (f *world) running() (out []string) {
	for _, id := range slices.Sorted(maps.Keys(f.boxes())) {
		if f.Containers.Runs(id) {
			out = append(out, id)
		}
	}
	return out
}

func TestOneTakesTheOthersPlace(t *testing.T) {
	f, older, newer := update(t)
	got, err := f.provisioner().Succeed(context.Background(), newer, placeOf(older))
	if err != nil || !strings.Contains(string(got), `"ipv4":"10.1.1.2"`) {
		t.Fatal(string(got), err)
	}
	if !slices.Equal(f.running(), []string{"3-1"}) || f.members()["3-1"].IPs[0] != "10.1.1.2" || len(f.members()) != 1 {
		t.Errorf("%v runs, members are %v", f.running(), f.members())
	}
	if _, kept := f.volumes()["2-1.layer"]; !kept || f.images()["2-1"].Label == "" {
		t.Error("what the older one wrote, or its image, went before the newer one was told ok")
	}
	// All that can be made beside the older one is made before the older one is touched.
	if want := []string{"Images.Pull", "Storage.CreateFilesystem", "Containers.Create", "Containers.Delete", "Networks.Leave", "Networks.Join", "Containers.Start"}; !slices.Equal(f.calls(), want) {
		t.Errorf("calls are %v, want %v", f.calls(), want)
	}
	if err := f.provisioner().Decommission(context.Background(), older); err != nil {
		t.Fatal(err)
	}
	if want := []string{"3-1", "3-1", "3-1", "3-1.layer"}; !slices.Equal(f.left(), want) || !slices.Equal(f.running(), []string{"3-1"}) {
		t.Errorf("on the node is %v, %v runs", f.left(), f.running())
	}
}

// Where possible, the newer one's faults are found before the older one is touched;
// else the older one runs again, with its data.
func TestTheOlderOneRunsOn(t *testing.T) {
	for name, c := range map[string]struct {
		wrong     func(f *world, newer *workload.Reservation)
		untouched bool
		kind      node.Kind
		says      string
	}{
		"its image isn't there yet": {func(f *world, _ *workload.Reservation) { f.unready() }, true, node.Transient, "its image"},
		"its image can't be had": {func(f *world, _ *workload.Reservation) {
			f.Fail("Images.Pull", node.Errorf(node.Invalid, "no such tag"))
		}, true, node.Invalid, "no such tag"},
		"no room for its layer": {func(f *world, _ *workload.Reservation) {
			f.Fail("Storage.CreateFilesystem", node.Errorf(node.NoSpace, "full"))
		}, true, node.NoSpace, "full"},
		"it can't be made": {func(f *world, _ *workload.Reservation) {
			f.Fail("Containers.Create", node.Errorf(node.Invalid, "no such user"))
		}, true, node.Invalid, "no such user"},
		"another's volume": {func(_ *world, r *workload.Reservation) {
			r.Data = []byte(strings.Replace(string(r.Data), "1-1", "9-9", 1))
		}, true, node.Refused, "a volume of yours"},
		"it ends with an error":        {func(f *world, _ *workload.Reservation) { f.Containers.Exits("3-1", 7) }, false, node.Invalid, "ended by itself with exit code 7"},
		"the older one can't be ended": {func(f *world, _ *workload.Reservation) { f.Fail("Networks.Leave", node.Errorf(node.Transient, "busy")) }, false, node.Unknown, "busy"},
	} {
		f, older, newer := update(t)
		c.wrong(f, newer)
		_, err := f.provisioner().Succeed(context.Background(), newer, placeOf(older))
		if node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%s), want %s saying %q", name, err, node.KindOf(err), c.kind, c.says)
		}
		touched := slices.Contains(f.calls(), "Networks.Leave")
		if touched == c.untouched {
			t.Errorf("%s: the older one was touched: %t (%v)", name, touched, f.calls())
		}
		f.mend()
		f.Images.Hold(nil)
		if c.kind == node.Unknown { // the engine's comparison of node and records repairs it
			if _, err := f.provisioner().Succeed(context.Background(), older, provisioner.Place{Others: []*workload.Reservation{newer}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !slices.Equal(f.running(), []string{"2-1"}) || f.members()["2-1"].IPs == nil || f.boxes()["2-1"].Mounts[0].Source != "/pools/a/1-1" {
			t.Errorf("%s: %v runs, members are %v", name, f.running(), f.members())
		}
		if err := f.provisioner().Decommission(context.Background(), newer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := []string{"2-1", "2-1", "2-1", "2-1.layer"}; !slices.Equal(f.left(), want) {
			t.Errorf("%s: on the node is %v, want %v", name, f.left(), want)
		}
	}
}

// Only the container's user can read its last lines.
func TestLastLinesAreSealed(t *testing.T) {
	f, older, newer := update(t)
	f.Containers.Exits("3-1", 7)
	f.Containers.Say("3-1", "3-1 says", "out of paper")
	raw, err := f.provisioner().Succeed(context.Background(), newer, placeOf(older))
	var data workload.ContainerFailure
	if node.KindOf(err) != node.Invalid || json.Unmarshal(raw, &data) != nil {
		t.Fatalf("%s, %v", raw, err)
	}
	box, err := hex.DecodeString(data.LastLines)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.owner.Open(box); err != nil || string(got) != "3-1 says\nout of paper\n" {
		t.Errorf("its user reads %q, %v", got, err)
	}
}

// A container that is in place keeps running when its repair fails.
func TestDeployedContainerIsNotStopped(t *testing.T) {
	f, older, newer := update(t)
	f.Fail("Networks.Join", node.Errorf(node.Transient, "the network module restarts"))
	_, err := f.provisioner().Succeed(context.Background(), older, provisioner.Place{Others: []*workload.Reservation{newer}})
	if node.KindOf(err) != node.Transient || !slices.Equal(f.running(), []string{"2-1"}) || f.members()["2-1"].IPs == nil {
		t.Errorf("%v, %v runs, members %v", err, f.running(), f.members())
	}
}

// A container that ends with exit code 0 is done: that is no reason to go back.
func TestOneThatEndsWellTakesThePlace(t *testing.T) {
	f, older, newer := update(t)
	f.Containers.Exits("3-1", 0)
	if _, err := f.provisioner().Succeed(context.Background(), newer, placeOf(older)); err != nil || len(f.boxes()) != 1 || f.Containers.Starts("3-1") == 0 {
		t.Errorf("%v, containers are %v", err, f.boxes())
	}
}

// Wherever the node stops during an update, the next Succeed of either one leaves that
// one running, and of the other no more than its layer and its image. A newer one that
// had ended with an error before the stop stays failed: then the older one runs.
func TestAnUpdateIsStoppedAnywhere(t *testing.T) {
	for _, bad := range []bool{false, true} {
		for n := 1; ; n++ {
			done := false
			for _, next := range []string{"newer", "older"} {
				f, older, newer := update(t)
				if bad {
					f.Containers.Exits("3-1", 7)
				}
				f.Die(n)
				_, cut := f.provisioner().Succeed(context.Background(), newer, placeOf(older))
				done = len(f.calls()) < n
				if !done && cut == nil {
					t.Errorf("stopped at call %d, and it has succeeded", n)
				}
				f.Revive()
				f.Containers.Stays("3-1")
				failed := bad && f.Containers.Starts("3-1") > 0
				want, err := "3-1", error(nil)
				if next == "newer" {
					_, err = f.provisioner().Succeed(context.Background(), newer, placeOf(older))
					if failed {
						if node.KindOf(err) != node.Invalid {
							t.Errorf("stopped at call %d: the newer, which had failed: %v", n, err)
						}
						want, err = "2-1", nil
					}
				} else {
					want = "2-1"
					_, err = f.provisioner().Succeed(context.Background(), older, provisioner.Place{Others: []*workload.Reservation{newer}})
				}
				if err != nil || !slices.Equal(f.running(), []string{want}) || len(f.members()) != 1 {
					t.Errorf("stopped at call %d, then the %s: %v, %v runs, members %v", n, next, err, f.running(), f.members())
				}
				if _, kept := f.volumes()["2-1.layer"]; !kept {
					t.Errorf("stopped at call %d, then the %s: what the older one wrote is gone", n, next)
				}
			}
			if done {
				break
			}
		}
	}
}
