package daemon

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	vdisk "github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/modules/vm/qemu"
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
	const disk = 512 * mib
	status := node.StorageStatus{Pools: []node.Pool{
		{Name: "ssd0", DiskType: workload.SSD, Offered: 20 * gib, Reserved: reserved + disk},
		{Name: "ssd1", DiskType: workload.SSD, Offered: 3*gib + gib/2},
	}}
	present := map[string]bool{"1-1": true, "2-1": true, "5-1": true}
	b := s.beside(status.Pools, filesystems, nil, func(id string) bool { return present[id] })
	if want := (provisioner.Demand{SSD: 3*gib + 128*mib + disk}); b.sum != want {
		t.Errorf("beside are %+v, want %+v", b.sum, want)
	}
	r := roomOf(provisioner.Demand{SSD: 23*gib + gib/2}, status, b)
	used := gib + 2*gib + zdbspace.Bound(gib) // 1-1, 2-1 and the namespace 5-1
	if free, is := less(r.Total.SSD, used), less(20*gib, reserved+disk)+3*gib+gib/2; free != is {
		t.Errorf("admission knows %d bytes to be free, storage has %d", free, is)
	}
	most := less(20*gib, reserved+disk)
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

// TestRoomOfVMs: a VM's disk counts once: as its demand, or as space that is taken beside all demands.
func TestRoomOfVMs(t *testing.T) {
	s := sizes{layerOn: workload.SSD}
	r := &workload.Reservation{ID: "1-1", Type: workload.TypeKubernetes}
	if err := reserve(r, 1); err != nil {
		t.Fatal(err)
	}
	need, err := s.demand(r)
	want := provisioner.Demand{CPU: 1, Memory: 2*gib + qemu.Overhead(qemu.TCG, 2*gib, 1), SSD: vdisk.DiskRoom(50 * gib)}
	if err != nil || need != want {
		t.Errorf("the demand is %+v, %v; want %+v", need, err, want)
	}
	if err := reserve(r, 255); err != nil {
		t.Fatal(err)
	}
	if _, err := s.demand(r); node.KindOf(err) != node.Invalid {
		t.Errorf("a size that there isn't: %v", err)
	}
	disks := []node.VDisk{
		{Name: "1-1", Pool: "ssd0", DiskType: workload.SSD, Size: 50 * gib},
		{Name: "2-1", Pool: "ssd0", DiskType: workload.SSD, Size: 8 * gib}, // of an ended VM
		{Name: "3-1", Pool: "hdd0", DiskType: workload.HDD, Size: 8 * gib}, // made when the node had no SSD
	}
	other := uint64(gib)
	pools := []node.Pool{
		{Name: "ssd0", DiskType: workload.SSD, Offered: 100 * gib, Reserved: vdisk.DiskRoom(50*gib) + vdisk.DiskRoom(8*gib) + other},
		{Name: "hdd0", DiskType: workload.HDD, Offered: 100 * gib, Reserved: vdisk.DiskRoom(8 * gib)},
	}
	b := s.beside(pools, nil, disks, func(id string) bool { return id == "1-1" || id == "3-1" })
	if want := (provisioner.Demand{SSD: vdisk.DiskRoom(8*gib) + other, HDD: vdisk.DiskRoom(8 * gib)}); b.sum != want {
		t.Errorf("beside are %+v, want %+v", b.sum, want)
	}
	if len(b.held) != 1 || b.held["2-1"] != (provisioner.Demand{SSD: vdisk.DiskRoom(8 * gib)}) {
		t.Errorf("held are %+v", b.held)
	}
}

// reserve makes r ask for a VM of a size.
func reserve(r *workload.Reservation, size uint8) (err error) {
	r.Data, err = json.Marshal(workload.Kubernetes{
		Size: size, NetworkID: "net", IP: net.IPv4(10, 1, 2, 3).To4(), ClusterSecret: strings.Repeat("ab", 64), MasterIPs: []net.IP{}, SSHKeys: []string{},
	})
	return err
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
