package daemon

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// TestRoomEqualsStorage: space taken beside volumes isn't offered, space already counted counts
// once, and admission refuses exactly where storage would have to.
func TestRoomEqualsStorage(t *testing.T) {
	const mib = gib / 1024
	s := sizes{layer: 2 * gib, layerOn: workload.SSD}
	var filesystems []node.Filesystem
	var reserved uint64
	for name, size := range map[string]uint64{
		"1-1": gib, "2-1.layer": 2 * gib, // counted by their reservations
		"3-1": gib, "4-1.layer": 2 * gib, // of ended workloads
		"zdb-ssd0-user": 64*mib + zdbspace.Bound(gib), "zdb-ssd0-user.layer": 64 * mib,
	} {
		filesystems = append(filesystems, node.Filesystem{Name: name, Pool: "ssd0", DiskType: workload.SSD, Size: size})
		reserved += size
	}
	const vdisk = 512 * mib
	status := node.StorageStatus{Pools: []node.Pool{
		{Name: "ssd0", DiskType: workload.SSD, Offered: 20 * gib, Reserved: reserved + vdisk},
		{Name: "ssd1", DiskType: workload.SSD, Offered: 3*gib + gib/2},
	}}
	present := map[string]bool{"1-1": true, "2-1": true, "5-1": true}
	b := s.beside(status.Pools, filesystems, func(id string) bool { return present[id] })
	if want := (provisioner.Demand{SSD: 3*gib + 128*mib + vdisk}); b.sum != want {
		t.Errorf("beside are %+v, want %+v", b.sum, want)
	}
	r := roomOf(provisioner.Demand{SSD: 23*gib + gib/2}, status, b)
	used := gib + 2*gib + zdbspace.Bound(gib) // 1-1, 2-1 and the namespace 5-1
	if free, is := less(r.Total.SSD, used), less(20*gib, reserved+vdisk)+3*gib+gib/2; free != is {
		t.Errorf("admission knows %d bytes to be free, storage has %d", free, is)
	}
	most := less(20*gib, reserved+vdisk)
	if r.free.SSD != most/gib*gib+3*gib || r.Whole.SSD != most {
		t.Errorf("free are %+v, in one piece %+v", r.free, r.Whole)
	}

	all := store.Usage{Demand: provisioner.Demand{SSD: used}}
	for _, c := range []struct {
		id   string
		want admit.Workload
		kind node.Kind
	}{
		{"as much as is in one piece", admit.Workload{Demand: provisioner.Demand{SSD: most / gib * gib}, Whole: true}, ""},
		{"more, as a volume", admit.Workload{Demand: provisioner.Demand{SSD: most + 1}, Whole: true}, node.NoSpace},
		{"more, in pieces", admit.Workload{Demand: provisioner.Demand{SSD: most + 1}}, ""},
		{"too much", admit.Workload{Demand: provisioner.Demand{SSD: most + 4*gib}}, node.NoSpace},
	} {
		if err := admit.Defaults().Check(c.want, store.Usage{}, all, r.Offer); node.KindOf(err) != c.kind {
			t.Errorf("%s: %v, want %q", c.id, err, c.kind)
		}
	}
	if b.held["3-1"] != (provisioner.Demand{SSD: gib}) || b.held["4-1"] != (provisioner.Demand{SSD: 2 * gib}) || len(b.held) != 2 {
		t.Errorf("held are %+v", b.held)
	}
}

func TestLayersLieOnTheFastDisks(t *testing.T) {
	ssd, hdd := node.Pool{DiskType: workload.SSD}, node.Pool{DiskType: workload.HDD}
	for _, c := range []struct {
		status node.StorageStatus
		want   workload.DeviceType
	}{
		{node.StorageStatus{}, ""},
		{node.StorageStatus{Pools: []node.Pool{ssd, hdd}}, workload.SSD},
		{node.StorageStatus{Pools: []node.Pool{hdd}}, workload.HDD},
		{node.StorageStatus{Pools: []node.Pool{hdd}, BrokenPools: []node.BrokenPool{{DiskType: workload.SSD}}}, workload.SSD},
		{node.StorageStatus{BrokenPools: []node.BrokenPool{{}}}, ""},
	} {
		if got := layerOn(c.status); got != c.want {
			t.Errorf("on %+v layers lie on %q, want %q", c.status, got, c.want)
		}
	}
}
