package carrier

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// scripted is a carrier of an earlier version: it answers each operation with the
// line that was recorded of that version, and records the requests.
func scripted(t *testing.T, run string, answers map[string]string) (requests chan string) {
	t.Helper()
	folder := kind().Folder(run)
	must(t, folder.Make())
	listener, err := net.Listen("unix", folder.Socket())
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	requests = make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			line = strings.TrimSuffix(line, "\n")
			requests <- line
			for op, answer := range answers {
				if strings.Contains(line, fmt.Sprintf("%q:%q", "op", op)) {
					_, _ = conn.Write([]byte(answer + "\n"))
				}
			}
			_ = conn.Close()
		}
	}()
	return requests
}

// TestAnEarlierCarrierIsAskedForAllZones has a carrier that refuses to be asked for one zone, as those of before do.
func TestAnEarlierCarrierIsAskedForAllZones(t *testing.T) {
	run := t.TempDir()
	must(t, kind().Folder(run).Make())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- carrier.Serve(ctx, carrier.ServeConfig{Kind: kind(), RunDir: run, SameGroup: true}, func(_ context.Context, s *carrier.Server, _ zerolog.Logger) (func(), error) {
			carrier.Handle(s, opZones, func(context.Context, carrier.Nothing) (zonesAnswer, error) {
				return zonesAnswer{[]ZoneStatus{{ID: "a"}, {ID: "b"}}}, nil
			})
			s.Describe(func(i carrier.Info) any { return Info{Info: i} })
			return func() {}, nil
		})
	}()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	// Its own program isn't started: it is there, or will be in a moment.
	var client *Client
	until(t, "it answers", func() bool {
		var err error
		client, err = Ensure(t.Context(), Config{RunDir: run, Command: []string{"false"}, Log: zerolog.Nop()})
		return err == nil
	})
	defer client.Close()
	if zones, err := client.Zone(t.Context(), "a"); err != nil || len(zones) != 2 || zones[0].ID != "a" {
		t.Errorf("zones %+v (%v)", zones, err)
	}
}

// Carriers outlive upgrades of the agent: the agent's requests are as an earlier
// version made them, byte for byte, and it reads that version's answers.
func TestWireOfEarlierVersions(t *testing.T) {
	const noKey = `"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`
	run := t.TempDir()
	requests := scripted(t, run, map[string]string{
		"info":          `{"version":1,"info":{"pid":7,"protocol":1,"version":"v1","started":"2023-11-14T22:13:20Z","memory":9,"devices":2,"zones":3}}`,
		"set-device":    `{"version":1}`,
		"remove-device": `{"version":1,"error":{"kind":"NotExist","message":"gone"}}`,
		"devices": `{"version":1,"devices":[{"id":"a","name":"","namespace":"","namespace_inode":5,"public_key":` + noKey +
			`,"listen_port":3001,"peers":[{"public_key":` + noKey + `,"endpoint":"","allowed_ips":null,"keepalive":0,"last_handshake":"2023-11-14T22:13:20Z","rx":1,"tx":2}]}]}`,
		"set-zone":    `{"version":1}`,
		"remove-zone": `{"version":1}`,
		"zones":       `{"version":1,"zones":[{"ID":"a","NamespaceInode":5,"Digest":"d","Broken":"b"}]}`,
	})
	client, err := Ensure(t.Context(), Config{RunDir: run, Log: zerolog.Nop()})
	must(t, err)
	defer client.Close()
	info, err := client.Info(t.Context())
	if err != nil || info.PID != 7 || info.Protocol != 1 || info.Version != "v1" || info.Started.Unix() != 1700000000 || info.Memory != 9 || info.Devices != 2 || info.Zones != 3 {
		t.Errorf("info %+v (%v)", info, err)
	}
	must(t, client.SetDevice(t.Context(), "a", wireguard.Config{
		Name: "wg0", Namespace: "/ns", ListenPort: 3001, MTU: 1420,
		Peers: []wireguard.Peer{{Endpoint: netip.MustParseAddrPort("1.2.3.4:5"), AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}},
	}))
	wants(t, node.NotExist, "gone", client.RemoveDevice(t.Context(), "a"))
	devices, err := client.Devices(t.Context())
	if err != nil || len(devices) != 1 || devices[0].ListenPort != 3001 || devices[0].NamespaceInode != 5 || len(devices[0].Peers) != 1 || devices[0].Peers[0].Tx != 2 || !devices[0].Peers[0].LastHandshake.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("devices %+v (%v)", devices, err)
	}
	if one, err := client.Device(t.Context(), "a"); err != nil || one.ID != "a" {
		t.Errorf("device %+v (%v)", one, err)
	}
	must(t, client.SetZone(t.Context(), Zone{ID: "a", Namespace: "/ns", Network: "n", Names: map[string][]netip.Addr{"web": {netip.MustParseAddr("10.1.1.5")}}}))
	must(t, client.RemoveZone(t.Context(), "a"))
	if zones, err := client.Zones(t.Context()); err != nil || !slices.Equal(zones, []ZoneStatus{{ID: "a", NamespaceInode: 5, Digest: "d", Broken: "b"}}) {
		t.Errorf("zones %+v (%v)", zones, err)
	}
	if zones, err := client.Zone(t.Context(), "a"); err != nil || len(zones) != 1 || zones[0].ID != "a" {
		t.Errorf("zone %+v (%v)", zones, err)
	}
	for _, want := range []string{
		`{"version":1,"op":"info"}`,
		`{"version":1,"op":"info"}`,
		`{"version":1,"op":"set-device","id":"a","device":{"name":"wg0","namespace":"/ns","private_key":` + noKey + `,"listen_port":3001,"mtu":1420,"peers":[{"public_key":` + noKey +
			`,"endpoint":"1.2.3.4:5","allowed_ips":["10.1.0.0/16"],"keepalive":0}]}}`,
		`{"version":1,"op":"remove-device","id":"a"}`,
		`{"version":1,"op":"devices"}`,
		`{"version":1,"op":"devices","id":"a"}`,
		`{"version":1,"op":"set-zone","zone":{"ID":"a","Namespace":"/ns","Network":"n","Names":{"web":["10.1.1.5"]}}}`,
		`{"version":1,"op":"remove-zone","id":"a"}`,
		`{"version":1,"op":"zones"}`,
		`{"version":1,"op":"zones","id":"a"}`,
	} {
		if got := <-requests; got != want {
			t.Errorf("asked\n%s, want\n%s", got, want)
		}
	}
}

// An earlier version's requests are answered as that version answered them.
func TestWireToEarlierVersions(t *testing.T) {
	s := newSite(t, 1)
	s.start(t)
	for _, c := range []struct{ say, want string }{
		{`{"version":1,"op":"devices"}`, `{"version":1}`},
		{`{"version":1,"op":"devices","id":"a"}`, `{"version":1}`},
		{`{"version":1,"op":"zones"}`, `{"version":1}`},
		{`{"version":1,"op":"remove-zone","id":"a"}`, `{"version":1,"error":{"kind":"NotExist","message":"cannot stop serving the names of network resource a: they aren't served"}}`},
	} {
		if got := say(t, s, c.say+"\n"); got != c.want {
			t.Errorf("%s is answered with\n%s, want\n%s", c.say, got, c.want)
		}
	}
	if got := say(t, s, `{"version":1,"op":"info"}`+"\n"); !strings.HasPrefix(got, `{"version":1,"info":{"pid":`) || !strings.HasSuffix(got, `,"devices":0,"zones":0}}`) {
		t.Errorf("info is answered with %s", got)
	}
}
