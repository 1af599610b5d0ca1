package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/internal/testing/looktest"
	"github.com/croft-edge/croft/pkg/nocloud"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

func TestProvision(t *testing.T) {
	w := newWorld(t)
	p := w.provisioner()
	r := w.reservation("8-1", w.data())
	for range 2 { // it is idempotent
		result, err := p.Provision(t.Context(), r)
		if err != nil || string(result) != `{"id":"8-1","ip":"10.1.1.9"}` {
			t.Fatalf("provision gives %s, %v", result, err)
		}
	}
	want := map[string]string{"VM 8-1": hashOf(t, r), "disk 8-1": hashOf(t, r), "tap 8-1": hashOf(t, r)}
	if got := w.parts(); !maps.Equal(got, want) {
		t.Errorf("the node has %v, want %v", got, want)
	}
	disk, err := fakenode.VDisks{Storage: w.Storage}.Inspect("8-1")
	must(t, err)
	if disk.Size != 50*workload.GiB || disk.DiskType != workload.SSD {
		t.Errorf("the disk is %+v", disk)
	}
	taps := w.taps()
	spec := w.VMs.Specs()["8-1"]
	if spec.User != w.user || spec.CPU != 1 || spec.Memory != 2*workload.GiB || spec.Kernel != w.image.Kernel || spec.Initrd != w.image.Initrd || spec.Arguments != "quiet" ||
		spec.Tap != (node.VMTap{Namespace: taps[0].Namespace, Device: taps[0].Device, MAC: taps[0].MAC}) || taps[0].Name != "8-1" ||
		!slices.Equal(spec.Disks, []node.VMDisk{{Path: disk.Path, Serial: "data"}, {Path: w.image.Root, Serial: "root", ReadOnly: true}}) {
		t.Errorf("the VM is asked for with %+v", spec)
	}
	checkBootData(t, spec, taps[0])
	seen, err := p.Look(t.Context())
	if one, there := seen[provisioner.LabelOf("8-1", hashOf(t, r))]; err != nil || len(seen) != 1 || !there || one.Drift != "" {
		t.Errorf("look: %+v, %v", seen, err)
	}
}

// checkBootData: the config disk has what the guest needs, and nothing else has the secret.
func checkBootData(t *testing.T, spec node.VMSpec, tap node.Tap) {
	t.Helper()
	files, err := nocloud.Read(bytes.NewReader(spec.Config))
	must(t, err)
	config, err := nocloud.Decode(files)
	must(t, err)
	link := config.Interfaces[0]
	if config.Hostname != "8-1" || link.MAC.String() != tap.MAC || fmt.Sprint(link.Addresses) != fmt.Sprintf("[10.1.1.9/24 %s/64]", tap.IPv6) ||
		fmt.Sprint(link.Gateways) != "[10.1.1.1 "+tap.Gateway6+"]" || fmt.Sprint(link.DNS) != "[10.1.1.1]" {
		t.Errorf("the machine is told %v, %+v", config, link)
	}
	text, ok := strings.CutPrefix(string(config.UserData), "#cloud-config\n")
	var user struct {
		Keys  []string `json:"ssh_authorized_keys"`
		From  []string `json:"ssh_import_id"`
		Croft struct {
			Secret  string   `json:"cluster_secret"`
			Masters []string `json:"master_ips"`
			Address string   `json:"ip"`
		} `json:"croft"`
	}
	if err := json.Unmarshal([]byte(text), &user); err != nil || !ok {
		t.Fatalf("the user data is %q: %v", config.UserData, err)
	}
	if !slices.Equal(user.Keys, []string{"ssh-ed25519 AAAA me@home"}) || !slices.Equal(user.From, []string{"gh:somebody"}) ||
		user.Croft.Secret != clusterSecret || user.Croft.Address != "10.1.1.9" || len(user.Croft.Masters) != 0 {
		t.Errorf("the user data is %+v", user)
	}
	if spec.Config = nil; strings.Contains(fmt.Sprintf("%+v", spec), clusterSecret) {
		t.Error("the secret is in the VM's spec")
	}
}

func TestWorker(t *testing.T) {
	w := newWorld(t)
	_, err := w.provisioner().Provision(t.Context(), w.reservation("8-1", w.data(`"master_ips":[]`, `"master_ips":["10.1.1.2","10.1.3.2"]`, `"size":1`, `"size":3`)))
	must(t, err)
	spec := w.VMs.Specs()["8-1"]
	files, err := nocloud.Read(bytes.NewReader(spec.Config))
	must(t, err)
	if !strings.Contains(string(files["user-data"]), `"master_ips":["10.1.1.2","10.1.3.2"]`) || spec.CPU != 2 || spec.Memory != 8*workload.GiB {
		t.Errorf("the worker is %+v, %s", spec, files["user-data"])
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change []string // pairs of texts, or the secret alone
		world  func(w *world)
		kind   node.Kind
		says   string
	}{
		"an unknown size":                   {[]string{`"size":1`, `"size":16`}, nil, node.Invalid, "data.size is 16, must be from 1 to 15"},
		"an IPv6 address":                   {[]string{`"10.1.1.9"`, `"fd00::9"`}, nil, node.Invalid, `data.ip is "fd00::9", must be an IPv4 address`},
		"an IPv6 master":                    {[]string{`"master_ips":[]`, `"master_ips":["10.1.1.2","fd00::9"]`}, nil, node.Invalid, `data.master_ips[1] is "fd00::9"`},
		"no key":                            {[]string{"ssh-ed25519 AAAA me@home", "hello"}, nil, node.Invalid, `data.ssh_keys[0] is "hello", must be a public key`},
		"a key's options":                   {[]string{"ssh-ed25519 AAAA me@home", `command=x ssh-rsa AAAA`}, nil, node.Invalid, "data.ssh_keys[0]"},
		"no account":                        {[]string{"github:somebody", "github:-x"}, nil, node.Invalid, `data.ssh_keys[1] is "github:-x"`},
		"another's address":                 {nil, func(w *world) { w.putTap("9-1", "10.1.1.9") }, node.Refused, "10.1.1.9"},
		"an address outside of the network": {[]string{`"10.1.1.9"`, `"10.1.2.9"`}, nil, node.Refused, "10.1.2.9"},
		"no network":                        {[]string{`"network_id":"net"`, `"network_id":"other"`}, nil, node.Refused, `data.network_id is "other"`},
		"a network that comes":              {[]string{`"network_id":"net"`, `"network_id":"soon"`}, func(w *world) { w.known["soon"] = reference.Coming }, node.Transient, "isn't there yet"},
		"another network's hash": {[]string{`"network_id":"net"`, fmt.Sprintf(`"network_id":"net","network_hash":%q`, workload.Hash{7}.Hex())}, nil,
			node.Refused, "data.network_hash is 07"},
		"no image": {nil, func(w *world) { w.VMImages.Remove(false) }, node.Refused, "this node runs no Kubernetes VMs"},
		"an image to come": {nil, func(w *world) { w.VMImages.Remove(true) }, node.Transient,
			"cannot provision Kubernetes VM 8-1: cannot boot VMs yet: the node's image for Kubernetes VMs is being fetched (0.0 MiB so far)"},
		"a broken image":  {nil, func(w *world) { w.Fail("VMImages.Current", node.Errorf(node.Invalid, "cannot use the image")) }, node.Transient, "can't be used now"},
		"no room":         {[]string{`"size":1`, `"size":5`}, nil, node.NoSpace, "8-1"},
		"a short secret":  {[]string{"short"}, nil, node.Invalid, "data.cluster_secret holds 5 bytes"},
		"another's box":   {[]string{""}, nil, node.Invalid, "data.cluster_secret must be sealed to this node"},
		"a secret's form": {[]string{"line\nline and more"}, nil, node.Invalid, "data.cluster_secret"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var data string
			if len(tt.change) == 1 {
				data = w.withSecret(tt.change[0])
			} else {
				data = w.data(tt.change...)
			}
			if tt.world != nil {
				tt.world(w)
			}
			before := w.parts()
			_, err := w.provisioner().Provision(t.Context(), w.reservation("8-1", data))
			if node.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v (%s), want %s and %q", err, node.KindOf(err), tt.kind, tt.says)
			}
			if after := w.parts(); !maps.Equal(after, before) {
				t.Errorf("the node has %v, had %v", after, before)
			}
			if err != nil && strings.Contains(err.Error(), clusterSecret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// withSecret is the data of a master with another secret; an empty one has a box of another field.
func (w *world) withSecret(secret string) string {
	w.t.Helper()
	sealed := w.seal(secret)
	if secret == "" {
		var err error
		sealed, err = workload.SealSecret(w.Identity.ID(), w.user, workload.TypeZDB, "password", []byte(clusterSecret))
		must(w.t, err)
	}
	return fmt.Sprintf(`{"size":1,"network_id":"net","ip":"10.1.1.9","cluster_secret":%q}`, sealed)
}

// putTap makes a tap of another VM.
func (w *world) putTap(vm, ip string) {
	w.t.Helper()
	_, err := fakenode.Taps{Networks: w.Networks}.Setup(node.TapSpec{Network: w.network(), VM: vm, IP: ip})
	must(w.t, err)
}

// A node without an SSD, or with a full one, has the disk on an HDD.
func TestWithoutSSD(t *testing.T) {
	for name, change := range map[string]func([]node.Pool) []node.Pool{
		"no SSD": func(pools []node.Pool) []node.Pool { return pools[1:] },
		"a full SSD": func(pools []node.Pool) []node.Pool {
			pools[0].Offered = workload.GiB
			return pools
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Storage.SetPools(change)
			_, err := w.provisioner().Provision(t.Context(), w.reservation("8-1", w.data()))
			must(t, err)
			if d, err := (fakenode.VDisks{Storage: w.Storage}).Inspect("8-1"); err != nil || d.DiskType != workload.HDD {
				t.Errorf("the disk is %+v, %v", d, err)
			}
		})
	}
}

// After a reboot the VM gets its disk back.
func TestReboot(t *testing.T) {
	w := newWorld(t)
	p, r := w.provisioner(), w.reservation("8-1", w.data())
	_, err := p.Provision(t.Context(), r)
	must(t, err)
	w.write("8-1")
	w.VMs.Reboot()
	must(t, fakenode.Taps{Networks: w.Networks}.Remove("8-1"))
	label := provisioner.LabelOf("8-1", hashOf(t, r))
	if seen, err := p.Look(t.Context()); err != nil || seen[label].Drift != "the VM is gone, its disk is left" {
		t.Errorf("look: %+v, %v", seen, err)
	}
	_, err = p.Provision(t.Context(), r)
	must(t, err)
	if seen, err := p.Look(t.Context()); err != nil || seen[label].Drift != "" || !w.kept("8-1") {
		t.Errorf("look: %+v, %v; the disk's content is kept: %t", seen, err, w.kept("8-1"))
	}
}

// Stop keeps the disk; Decommission doesn't.
func TestStopAndDecommission(t *testing.T) {
	w := newWorld(t)
	p, r := w.provisioner(), w.reservation("8-1", w.data())
	for range 2 {
		_, err := p.Provision(t.Context(), r)
		must(t, err)
		w.write("8-1")
		must(t, p.Stop(t.Context(), r))
		if got := w.parts(); len(got) != 1 || !w.kept("8-1") {
			t.Errorf("stopped, the node has %v", got)
		}
	}
	for range 2 {
		must(t, p.Decommission(t.Context(), r))
		if got := w.parts(); len(got) != 0 {
			t.Errorf("decommissioned, the node has %v", got)
		}
	}
}

// A VM that crashes is started by its module, and drifts as little as one that runs.
func TestDrift(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(w *world)
		drift  string
		mended bool
	}{
		"a crash":         {func(w *world) { w.VMs.Crash("8-1") }, "", true},
		"a broken record": {func(w *world) { w.VMs.Break("8-1") }, "its record can't be read", false},
		"lost its tap":    {func(w *world) { w.VMs.SetDrift("8-1", "it isn't connected") }, "it isn't connected", true},
		"no tap":          {func(w *world) { must(w.t, fakenode.Taps{Networks: w.Networks}.Remove("8-1")) }, "its tap device is gone", true},
		"the tap's drift": {func(w *world) { fakenode.Taps{Networks: w.Networks}.SetDrift("8-1", "the link is down") }, "the link is down", true},
		"no disk":         {func(w *world) { must(w.t, fakenode.VDisks{Storage: w.Storage}.Deallocate("8-1")) }, "its disk is gone", false},
		"the VM alone":    {func(w *world) { w.VMs.Reboot() }, "the VM is gone, its disk is left", true},
		"its tap alone": {func(w *world) {
			w.VMs.Reboot()
			must(w.t, fakenode.VDisks{Storage: w.Storage}.Deallocate("8-1"))
		}, "the VM is gone, its tap device is left", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, r := w.provisioner(), w.reservation("8-1", w.data())
			_, err := p.Provision(t.Context(), r)
			must(t, err)
			w.deployed = true
			label := provisioner.LabelOf("8-1", hashOf(t, r))
			tt.damage(w)
			if seen, err := p.Look(t.Context()); err != nil || len(seen) != 1 || seen[label].Drift != tt.drift {
				t.Errorf("look: %+v, %v; want %q", seen, err, tt.drift)
			} else {
				looktest.Same(t, p, seen)
			}
			_, err = p.Provision(t.Context(), r)
			seen, _ := p.Look(t.Context())
			if mended := err == nil && seen[label].Drift == ""; mended != tt.mended {
				t.Errorf("provision: %v, then %+v; want it mended: %t", err, seen, tt.mended)
			}
			if _, disk := w.parts()["disk 8-1"]; (name == "no disk" || name == "its tap alone") && disk {
				t.Error("an empty disk was made for a VM that had another")
			}
		})
	}
}

// What isn't known to be another's is left alone: the record of a VM may be unreadable for a while.
func TestUnreadableVMKeepsItsDisk(t *testing.T) {
	w := newWorld(t)
	p, r := w.provisioner(), w.reservation("8-1", w.data())
	_, err := p.Provision(t.Context(), r)
	must(t, err)
	w.write("8-1")
	w.VMs.Break("8-1")
	label := provisioner.LabelOf("8-1", hashOf(t, r))
	for what, order := range map[string]func() error{
		"provision":    func() error { _, err := p.Provision(t.Context(), r); return err },
		"stop":         func() error { return p.Stop(t.Context(), r) },
		"decommission": func() error { return p.Decommission(t.Context(), r) },
		"remove":       func() error { return p.Remove(t.Context(), label) },
	} {
		if err := order(); node.KindOf(err) != node.Busy || !w.kept("8-1") || len(w.parts()) != 3 {
			t.Errorf("%s: %v; the node has %v", what, err, w.parts())
		}
	}
	if seen, err := p.Look(t.Context()); err != nil || len(seen) != 1 || seen[label].Drift != "its record can't be read" {
		t.Errorf("look: %+v, %v", seen, err)
	}
}

// A VM that was never deployed, and lost its disk to a lost answer, is made anew.
func TestLeftVMWithoutDisk(t *testing.T) {
	w := newWorld(t)
	p, r := w.provisioner(), w.reservation("8-1", w.data())
	_, err := p.Provision(t.Context(), r)
	must(t, err)
	must(t, fakenode.VDisks{Storage: w.Storage}.Deallocate("8-1"))
	before, err := w.VMs.Inspect("8-1")
	must(t, err)
	_, err = p.Provision(t.Context(), r)
	must(t, err)
	if after, err := w.VMs.Inspect("8-1"); err != nil || after.PID == before.PID || len(w.parts()) != 3 {
		t.Errorf("it is %+v, was %+v: %v", after, before, err)
	}
}

// The parts of one ID may be of several reservations.
func TestRemoveTakesOneLabel(t *testing.T) {
	w := newWorld(t)
	p, r := w.provisioner(), w.reservation("8-1", w.data())
	other := workload.Hash{9}
	_, err := fakenode.VDisks{Storage: w.Storage}.Allocate(node.VDiskSpec{Name: "8-1", Size: workload.GiB, Hash: other.Hex()})
	must(t, err)
	_, err = w.VMs.Run(node.VMSpec{ID: "8-1", User: "x", CPU: 1, Memory: workload.GiB, Kernel: "/k", Hash: hashOf(t, r)})
	must(t, err)
	seen, err := p.Look(t.Context())
	if err != nil || len(seen) != 2 {
		t.Errorf("look: %+v, %v", seen, err)
	}
	must(t, p.Remove(t.Context(), provisioner.Label{ID: "8-1", Hash: workload.Hash{8}}))
	if len(w.parts()) != 2 {
		t.Errorf("a third label's removal leaves %v", w.parts())
	}
	must(t, p.Remove(t.Context(), provisioner.LabelOf("8-1", hashOf(t, r))))
	if got := w.parts(); !maps.Equal(got, map[string]string{"disk 8-1": other.Hex()}) {
		t.Errorf("it leaves %v", got)
	}
	_, err = p.Provision(t.Context(), r)
	if node.KindOf(err) != node.Exist {
		t.Errorf("another's disk: %v", err)
	}
	must(t, p.Remove(t.Context(), provisioner.Label{ID: "8-1", Hash: other}))
	if got := w.parts(); len(got) != 0 {
		t.Errorf("it leaves %v", got)
	}
}
