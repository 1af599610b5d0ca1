package daemon

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
)

func TestContactRemembersTheLastGoodAnswer(t *testing.T) {
	c := &contact{url: "http://e"}
	if s := c.state(); s.LastContact != nil || s.LastError != "" || s.URL != "http://e" {
		t.Fatalf("%+v", s)
	}
	c.tell(errors.New("refused"))
	if s := c.state(); s.LastContact != nil || s.LastError != "refused" {
		t.Fatalf("%+v", s)
	}
	c.tell(nil)
	c.tell(errors.New("timeout"))
	s := c.state()
	if s.LastContact == nil || time.Since(*s.LastContact) > time.Minute || s.LastError != "timeout" {
		t.Fatalf("%+v", s)
	}
}

func TestNotify(t *testing.T) {
	var log bytes.Buffer
	d := &daemon{Config: Config{Log: zerolog.New(&log)}}
	t.Setenv("NOTIFY_SOCKET", "")
	if d.tell("READY=1"); log.Len() > 0 {
		t.Fatalf("without a service manager: %s", &log)
	}
	socket := filepath.Join(t.TempDir(), "notify")
	for _, name := range []string{socket, "@croft-test" + filepath.Base(filepath.Dir(socket)) + sign.ID(make([]byte, 32))} {
		listen := name
		if name[0] == '@' {
			listen = "\x00" + name[1:]
		}
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: listen, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", name)
		for _, state := range []string{systemd.SdNotifyReady, systemd.SdNotifyStopping} {
			if d.tell(state); log.Len() > 0 {
				t.Fatalf("%s to %q: %s", state, name, &log)
			}
		}
		for _, want := range []string{"READY=1", "STOPPING=1"} {
			told(t, conn, want)
		}
		conn.Close()
		if os.Getenv("NOTIFY_SOCKET") != name {
			t.Fatal("NOTIFY_SOCKET is gone from the environment")
		}
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	if d.tell("READY=1"); !strings.Contains(log.String(), "cannot notify the service manager") {
		t.Fatalf("nobody listens, and the log has %q", &log)
	}
}

func TestOffered(t *testing.T) {
	host := node.HostInfo{Cores: 4, Memory: 8 * gib}
	pools := []node.Pool{
		{DiskType: workload.SSD, Total: 100 * gib, Offered: 97 * gib}, {DiskType: workload.SSD, Total: 50 * gib, Offered: 47 * gib},
		{DiskType: workload.HDD, Total: 1000 * gib, Offered: 987 * gib},
	}
	for _, c := range []struct {
		name string
		set  config.Config
		want provisioner.Demand
	}{
		{"all", config.Config{}, provisioner.Demand{CPU: 4, Memory: 8 * gib, SSD: 144 * gib, HDD: 987 * gib, Tunnels: 128 << 20}},
		{"less a reserve", config.Config{Reserve: config.Amounts{CPU: 1, Memory: gib, Disk: 10 * gib}}, provisioner.Demand{CPU: 3, Memory: 7 * gib, SSD: 134 * gib, HDD: 977 * gib, Tunnels: 128 << 20}},
		{"cores promised often", config.Config{Reserve: config.Amounts{CPU: 1}, Overcommit: 10}, provisioner.Demand{CPU: 30, Memory: 8 * gib, SSD: 144 * gib, HDD: 987 * gib, Tunnels: 128 << 20}},
		{"never below nothing", config.Config{Reserve: config.Amounts{CPU: 9, Memory: 9 * gib, Disk: 1 << 60}, Overcommit: 3}, provisioner.Demand{Tunnels: 128 << 20}},
	} {
		if got := offered(host, pools, c.set); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestFactsRoundInTheUsersFavour(t *testing.T) {
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	f, err := nodeFacts{
		nodeID: key.ID(), farm: 3, version: "v9", birth: "b",
		host: node.HostInfo{Uptime: 77, Addresses: []string{"192.0.2.9", "192.0.2.1"}},
		room: capacityOf(
			room{Offer: admit.Offer{Total: provisioner.Demand{CPU: 4, Memory: 8*gib - 1, SSD: 10 * gib, HDD: 0}}, free: provisioner.Demand{SSD: 9 * gib}},
			provisioner.Demand{SSD: 3*gib + 1}),
	}.facts()
	if err != nil {
		t.Fatal(err)
	}
	if want := (explorer.Resources{CRU: 4, MRU: 7, SRU: 10}); f.Node.TotalResources != want {
		t.Errorf("total %+v", f.Node.TotalResources)
	}
	if want := (explorer.Resources{SRU: 4}); *f.Heartbeat.UsedResources != want {
		t.Errorf("used %+v", f.Heartbeat.UsedResources)
	}
	if want := (explorer.Resources{CRU: 4, MRU: 7, SRU: 6}); *f.Heartbeat.FreeResources != want {
		t.Errorf("free %+v", f.Heartbeat.FreeResources)
	}
	if f.Heartbeat.Uptime != 77 || f.Node.Address != "192.0.2.1" || !reflect.DeepEqual(f.Node.Ifaces[0].Addrs, []string{"192.0.2.1/32", "192.0.2.9/32"}) {
		t.Errorf("%+v", f)
	}
	if _, err := (nodeFacts{nodeID: "me"}).facts(); err == nil {
		t.Error("a node without an ID was described")
	}
}

func TestDemand(t *testing.T) {
	for _, c := range []struct {
		r    workload.Reservation
		want provisioner.Demand
		kind node.Kind
	}{
		{workload.Reservation{Type: workload.TypeVolume, Data: []byte(`{"size":3,"type":"SSD"}`)}, provisioner.Demand{SSD: 3 * gib}, ""},
		{workload.Reservation{Type: workload.TypeVolume, Data: []byte(`{"size":3,"type":"HDD"}`)}, provisioner.Demand{HDD: 3 * gib}, ""},
		{workload.Reservation{Type: workload.TypeVolume, Data: []byte(`{"size":"3"}`)}, provisioner.Demand{}, node.Invalid},
		{workload.Reservation{Type: workload.TypeZDB, Data: []byte(`{"size":5,"mode":"seq","disk_type":"SSD"}`)}, provisioner.Demand{SSD: zdbspace.Bound(5 * gib)}, ""},
		{workload.Reservation{Type: workload.TypeZDB, Data: []byte(`{"size":5,"mode":"user","disk_type":"HDD"}`)}, provisioner.Demand{HDD: zdbspace.Bound(5 * gib)}, ""},
		{workload.Reservation{Type: workload.TypeZDB, Data: []byte(`{"size":5,"mode":"user"}`)}, provisioner.Demand{}, node.Invalid},
		{workload.Reservation{Type: workload.TypeContainer, Data: []byte(`{"flist":"f","network":{"network_id":"n","ips":["10.0.0.1"]},"capacity":{"cpu":2,"memory":1024}}`)}, provisioner.Demand{CPU: 2, Memory: gib, HDD: 2 * gib}, ""},
		{workload.Reservation{Type: workload.TypeDebug}, provisioner.Demand{}, ""},
		{workload.Reservation{Type: workload.TypeNetwork, Data: []byte(`{"name":7}`)}, provisioner.Demand{}, node.Invalid},
	} {
		got, err := sizes{layer: 2 * gib, layerOn: workload.HDD}.demand(&c.r)
		if got != c.want || node.KindOf(err) != c.kind {
			t.Errorf("%s %s: %+v, %v", c.r.Type, c.r.Data, got, err)
		}
	}
}

// TestANetworkTakesItsPartOnThisNode: with its peers and their ranges.
func TestANetworkTakesItsPartOnThisNode(t *testing.T) {
	n := workload.Network{Resources: []workload.NetworkResource{
		{NodeID: "m", Peers: make([]workload.WireGuardPeer, 3)},
		{NodeID: "n", Peers: []workload.WireGuardPeer{{AllowedIPs: []string{"a", "b"}}, {AllowedIPs: []string{"c"}}}},
	}}
	if got := tunnels(n, "n"); got != carrier.Cost(2, 3) {
		t.Errorf("%d, want %d", got, carrier.Cost(2, 3))
	}
}

// TestTunnelsAreLimitedByTheCarriersBudget: admission promises exactly the wg carrier's memory budget.
func TestTunnelsAreLimitedByTheCarriersBudget(t *testing.T) {
	if admit.TunnelMemory.Total != carrier.Budget || 3*carrier.Budget != carrier.DefaultHardLimit {
		t.Errorf("%d are promised, the budget is %d of %d", admit.TunnelMemory.Total, carrier.Budget, carrier.DefaultHardLimit)
	}
}

func TestBuildTime(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	info := func(key, value string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: key, Value: value}}}
	}
	for _, c := range []struct {
		name  string
		info  *debug.BuildInfo
		known bool
		want  time.Time
	}{
		{"from a checkout", info("vcs.time", "2024-05-06T07:08:09Z"), true, at},
		{"from elsewhere", info("GOOS", "linux"), true, time.Time{}},
		{"damaged", info("vcs.time", "yesterday"), true, time.Time{}},
		{"unknown", nil, false, time.Time{}},
	} {
		if got := buildTime(c.info, c.known); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
