package deploy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// webOf is a container on a volume; the volume is as in "volume: data".
func webOf(volume string) string {
	return "  web:\n    container:\n      flist: x\n      capacity: {cpu: 1, memory: 64}\n" +
		"      network: {network_id: n, ips: [10.0.0.2]}\n      mounts: [{" + volume + ", mountpoint: /data}]\n"
}

func (u *user) hashOf(r workload.Reservation) string {
	u.t.Helper()
	h, err := r.Hash()
	if err != nil {
		u.t.Fatal(err)
	}
	return h.Hex()
}

// pushed is the container that was pushed last.
func (u *user) pushed() workload.Container {
	u.t.Helper()
	c, err := workload.DataOf[workload.Container](&u.fake.shown[len(u.fake.shown)-1].Reservation)
	if err != nil {
		u.t.Fatal(err)
	}
	return c
}

// TestSwappedReservations: the container names the volume of the file
// by the hash of what was signed here, whatever the explorer says of IDs.
func TestSwappedReservations(t *testing.T) {
	u := newUser(t)
	two := oneVolume + "  other:\n    volume: {size: 1, type: SSD}\n"
	if _, err := u.apply(u.deployer(), u.file(two)); err != nil {
		t.Fatal(err)
	}
	want := u.hashOf(u.fake.shown[0].Reservation)
	u.fake.shown[0].Reservation, u.fake.shown[1].Reservation = u.fake.shown[1].Reservation, u.fake.shown[0].Reservation
	u.fake.shown[0].ID, u.fake.shown[1].ID = "1-1", "2-1"
	d := u.deployer()
	f := u.file(two + webOf("volume: data"))
	if _, err := d.Applier.Apply(t.Context(), f, plan.Plan{Changes: []plan.Change{{Name: "web", Action: plan.Create}}}, false); err != nil {
		t.Fatal(err)
	}
	if m := u.pushed().Mounts[0]; m.VolumeID != "1-1" || m.VolumeHash != want {
		t.Errorf("it mounts %+v, want the volume of hash %s", m, want)
	}
}

// TestDocumentsWithoutHashesStay: an entry of before names none, and isn't
// changed for that.
func TestDocumentsWithoutHashesStay(t *testing.T) {
	u := newUser(t)
	f := u.file(oneVolume + webOf("volume: data"))
	if _, err := u.apply(u.deployer(), f); err != nil {
		t.Fatal(err)
	}
	d := u.deployer()
	web := d.State.Current["web"]
	data := strings.Replace(string(u.fake.shown[1].Data), `"volume_hash":"`+u.hashOf(u.fake.shown[0].Reservation)+`",`, "", 1)
	before := workload.Reservation{NodeID: web.Node, Type: web.Type, Data: []byte(data), Created: time.Now(), Duration: web.Duration}
	if strings.Contains(data, "hash") {
		t.Fatalf("data is %s", data)
	}
	if err := before.Sign(u.key.Private()); err != nil {
		t.Fatal(err)
	}
	document, err := workload.Encode(&before)
	if err != nil {
		t.Fatal(err)
	}
	before.ID = web.ID
	u.fake.shown[1].Reservation, web.Document, web.Hashes = before, string(document), nil
	if err := u.fake.answer(u.fake.shown[1], workload.StateOK, ""); err != nil {
		t.Fatal(err)
	}
	if err := d.State.Save(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if p, err := u.apply(u.deployer(), f); err != nil || p.Changed() || len(u.fake.shown) != 2 {
			t.Errorf("%+v, %v, %d pushed", p.Changes, err, len(u.fake.shown))
		}
	}
}

// TestTheSameIDForAnotherVolume: the hash tells that the volume was made anew.
func TestTheSameIDForAnotherVolume(t *testing.T) {
	u := newUser(t)
	f := u.file(oneVolume + webOf("volume: data"))
	if _, err := u.apply(u.deployer(), f); err != nil {
		t.Fatal(err)
	}
	d := u.deployer()
	d.State.Current["web"].Hashes["data"] = strings.Repeat("0", 64)
	if p, err := u.plan(d, f); err != nil || p.Changes[1].Action != plan.Replace || !strings.Contains(p.Changes[1].Reason, `its volume "data" was recreated`) {
		t.Errorf("%+v, %v", p.Changes, err)
	}
}

// TestVolumesOutsideOfTheFile: the explorer is asked for their hash, and only
// what the user's own key signed for that node counts.
func TestVolumesOutsideOfTheFile(t *testing.T) {
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(u *user, shown *explorer.Reservation)
		named  bool
	}{
		"it is one's own": {func(*user, *explorer.Reservation) {}, true},
		"the explorer says another size": {func(_ *user, shown *explorer.Reservation) {
			shown.Data = []byte(`{"size":11,"type":"SSD"}`)
		}, false},
		"it is somebody else's": {func(u *user, shown *explorer.Reservation) {
			shown.User = stranger.ID()
			if err := shown.Sign(stranger.Private()); err != nil {
				u.t.Fatal(err)
			}
		}, false},
		"it is on another node": {func(u *user, shown *explorer.Reservation) {
			shown.NodeID = stranger.ID()
			if err := shown.Sign(u.key.Private()); err != nil {
				u.t.Fatal(err)
			}
		}, false},
		"it is no volume": {func(u *user, shown *explorer.Reservation) {
			shown.Type, shown.Data = workload.TypeZDB, []byte(`{"size":1,"mode":"seq","disk_type":"SSD"}`)
			if err := shown.Sign(u.key.Private()); err != nil {
				u.t.Fatal(err)
			}
		}, false},
		"there is none": {func(_ *user, shown *explorer.Reservation) { shown.ID = "77-1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			if _, err := u.apply(u.deployer(), u.file(oneVolume)); err != nil {
				t.Fatal(err)
			}
			outside := u.fake.shown[0]
			c.change(u, outside)
			d := u.deployer()
			clear(d.State.Current)
			want := ""
			if c.named {
				want = u.hashOf(outside.Reservation)
			}
			if _, err := d.Applier.Apply(t.Context(), u.file(webOf("volume_id: 1-1")), plan.Plan{Changes: []plan.Change{{Name: "web", Action: plan.Create}}}, false); err != nil {
				t.Fatal(err)
			}
			if m := u.pushed().Mounts[0]; m.VolumeID != "1-1" || m.VolumeHash != want {
				t.Errorf("it mounts %+v, want hash %q", m, want)
			}
		})
	}
}

// TestUnknownHashStopsSigning: an explorer that doesn't answer now is
// no reason to sign less.
func TestUnknownHashStopsSigning(t *testing.T) {
	u := newUser(t)
	u.fake.fail = func(call string) error {
		if call == "get" {
			return node.Errorf(node.Internal, "broken")
		}
		return nil
	}
	d := u.deployer()
	_, err := d.Applier.Apply(t.Context(), u.file(webOf("volume_id: 1-1")), plan.Plan{Changes: []plan.Change{{Name: "web", Action: plan.Create}}}, false)
	if err == nil || !strings.Contains(err.Error(), `cannot make the data of "web": broken`) || len(u.fake.shown) != 0 || len(d.State.Current) != 0 {
		t.Errorf("%v, %d pushed, %d in the state", err, len(u.fake.shown), len(d.State.Current))
	}
}

// TestProjectNetworkHash too, where the data says the name itself.
func TestProjectNetworkHash(t *testing.T) {
	u := newUser(t)
	net := "  n:\n    network:\n      name: n\n      ip_range: 10.0.0.0/16\n      net_resources:\n" +
		"        - {node_id: " + u.fake.key.ID() + ", subnet: 10.0.0.0/24, wg_private_key: {secret: env:WG}, wg_public_key: rIzU0zsCVONw2GHFZmdt4wt5FgrbcjqdPvKh6lRwY20=, wg_listen_port: 5000, peers: []}\n"
	if _, err := u.apply(u.deployer(), u.file(net)); err != nil {
		t.Fatal(err)
	}
	want := u.hashOf(u.fake.shown[0].Reservation)
	if _, err := u.apply(u.deployer(), u.file(net+oneVolume+webOf("volume: data"))); err != nil {
		t.Fatal(err)
	}
	if n := u.pushed().Network; n.NetworkID != "n" || n.NetworkHash != want {
		t.Errorf("it joins %+v, want hash %s", n, want)
	}
}
