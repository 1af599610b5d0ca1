package wireguard

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/conn/bindtest"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

func key(n byte) Key { return Key{31: 64, 0: n << 3, 1: n} }

func prefixes(list ...string) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func at(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

var own = key(9)

// wanted and is are a device that is as it should be.
func wanted() Config {
	return Config{Name: "wg0", Namespace: "/n", PrivateKey: own, ListenPort: 5000, MTU: DefaultMTU, Peers: []Peer{
		{PublicKey: key(1), Endpoint: at("192.0.2.1:51820"), AllowedIPs: prefixes("10.1.1.0/24", "fd00::/64")},
		{PublicKey: key(2), AllowedIPs: prefixes("10.1.2.0/24")},
	}}
}

func is() Status {
	return Status{PublicKey: own.Public(), ListenPort: 5000, Peers: []PeerStatus{
		{PublicKey: key(2), AllowedIPs: prefixes("10.1.2.0/24"), Endpoint: at("198.51.100.7:4000")},
		{PublicKey: key(1), AllowedIPs: prefixes("fd00::/64", "10.1.1.0/24"), Endpoint: at("192.0.2.1:51820"), Keepalive: KeepNAT},
	}}
}

// hexOf is how a device writes a key.
func hexOf(k Key) string {
	return strings.TrimSuffix(strings.TrimPrefix(EncodeUAPI(Plan(Config{PrivateKey: k}, nil, Status{}, time.Time{})), "private_key="), "\n")
}

// TestPlan is the specification of the changes sent to a device.
func TestPlan(t *testing.T) {
	now := time.Unix(1e9, 0)
	one, two, three := "public_key="+hexOf(key(1)), "public_key="+hexOf(key(2)), "public_key="+hexOf(key(3))
	lastSame, lastElse := wanted(), wanted()
	lastElse.Peers[0].Endpoint = at("192.0.2.99:51820")
	lastWithout := wanted()
	lastWithout.Peers = lastWithout.Peers[1:]
	moved := func(s *Status) { s.Peers[1].Endpoint = at("203.0.113.5:1") }
	for _, c := range []struct {
		name string
		want func(*Config)
		is   func(*Status)
		last *Config
		send []string
	}{
		{"nothing differs", nil, nil, nil, nil},
		{"nothing differs, set before", nil, nil, &lastSame, nil},
		{"the order of peers and IPs", func(c *Config) { slices.Reverse(c.Peers); slices.Reverse(c.Peers[1].AllowedIPs) }, nil, nil, nil},
		{"an allowed IP with host bits", func(c *Config) { c.Peers[1].AllowedIPs = prefixes("10.1.2.77/24", "10.1.2.0/24") }, nil, nil, nil},
		{"a new device", nil, func(s *Status) { *s = Status{} }, nil, []string{
			"private_key=" + hexOf(own), "listen_port=5000",
			one, "endpoint=192.0.2.1:51820", "persistent_keepalive_interval=25", "replace_allowed_ips=true", "allowed_ip=10.1.1.0/24", "allowed_ip=fd00::/64",
			two, "persistent_keepalive_interval=0", "replace_allowed_ips=true", "allowed_ip=10.1.2.0/24",
		}},
		{"another key", func(c *Config) { c.PrivateKey = key(8) }, nil, &lastSame, []string{"private_key=" + hexOf(key(8))}},
		{"another port", func(c *Config) { c.ListenPort = 5001 }, nil, &lastSame, []string{"listen_port=5001"}},
		{"any port", func(c *Config) { c.ListenPort = 0 }, nil, &lastSame, nil},
		{"a peer comes", func(c *Config) {
			c.Peers = append(c.Peers, Peer{PublicKey: key(3), AllowedIPs: prefixes("10.1.3.0/24"), Endpoint: at("[2001:db8::1]:7"), Keepalive: NoKeepalive})
		}, nil, &lastSame, []string{three, "endpoint=[2001:db8::1]:7", "persistent_keepalive_interval=0", "replace_allowed_ips=true", "allowed_ip=10.1.3.0/24"}},
		{"a peer goes", func(c *Config) { c.Peers = c.Peers[:1] }, nil, &lastSame, []string{two, "remove=true"}},
		{"its range goes to another", func(c *Config) { c.Peers = c.Peers[:1]; c.Peers[0].AllowedIPs = prefixes("10.1.2.0/24") }, nil, &lastSame, []string{
			two, "remove=true", one, "update_only=true", "replace_allowed_ips=true", "allowed_ip=10.1.2.0/24"}},
		{"all ranges go", func(c *Config) { c.Peers[0].AllowedIPs = nil }, nil, &lastSame, []string{one, "update_only=true", "replace_allowed_ips=true"}},
		{"another keepalive", func(c *Config) { c.Peers[0].Keepalive = time.Minute }, nil, &lastSame, []string{one, "update_only=true", "persistent_keepalive_interval=60"}},
		{"another endpoint is wanted", nil, moved, &lastElse, []string{one, "update_only=true", "endpoint=192.0.2.1:51820"}},
		{"an endpoint is wanted of a peer that had none", nil, moved, &lastWithout, []string{one, "update_only=true", "endpoint=192.0.2.1:51820"}},
		{"the peer has moved", nil, moved, &lastSame, nil},
		{"it moved, nobody remembers, it is alive", nil, func(s *Status) { moved(s); s.Peers[1].LastHandshake = now.Add(-time.Minute) }, nil, nil},
		{"it moved, nobody remembers, it is silent", nil, func(s *Status) { moved(s); s.Peers[1].LastHandshake = now.Add(-time.Hour) }, nil, []string{one, "update_only=true", "endpoint=192.0.2.1:51820"}},
		{"it has no endpoint, nobody remembers", nil, func(s *Status) { s.Peers[1].Endpoint = netip.AddrPort{}; s.Peers[1].LastHandshake = now }, nil, []string{one, "update_only=true", "endpoint=192.0.2.1:51820"}},
		{"IPv4 in IPv6", func(c *Config) { c.Peers[0].Endpoint = at("[::ffff:192.0.2.1]:51820") }, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := wanted(), is()
			if c.want != nil {
				c.want(&w)
			}
			if c.is != nil {
				c.is(&s)
			}
			plan := Plan(w, c.last, s, now)
			got := strings.Fields(EncodeUAPI(plan))
			if !slices.Equal(got, c.send) {
				t.Errorf("sent:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.send, "\n"))
			}
			if Empty(plan) != (len(c.send) == 0) {
				t.Errorf("empty: %t", Empty(plan))
			}
		})
	}
}

// anyPort is a bind in memory that has the port that is asked for.
type anyPort struct{ conn.Bind }

func (b anyPort) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	fns, _, err := b.Bind.Open(port)
	return fns, port, err
}

// TestSamePeers holds that a peer that is missing, another's, or has other ranges is seen, and one that has moved isn't.
func TestSamePeers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Status)
		same   bool
	}{
		"as it should be": {func(*Status) {}, true},
		"one has moved":   {func(s *Status) { s.Peers[1].Endpoint = at("203.0.113.5:1") }, true},
		"one is missing":  {func(s *Status) { s.Peers = s.Peers[1:] }, false},
		"one is another":  {func(s *Status) { s.Peers[0].PublicKey = key(3) }, false},
		"one is too many": {func(s *Status) { s.Peers = append(s.Peers, PeerStatus{PublicKey: key(3)}) }, false},
		"other ranges":    {func(s *Status) { s.Peers[0].AllowedIPs = prefixes("10.1.3.0/24") }, false},
		"fewer ranges":    {func(s *Status) { s.Peers[1].AllowedIPs = prefixes("fd00::/64") }, false},
		"no ranges":       {func(s *Status) { s.Peers[0].AllowedIPs = nil }, false},
	} {
		actual := is()
		c.change(&actual)
		if same := SamePeers(wanted(), actual); same != c.same {
			t.Errorf("%s: the same is %t", name, same)
		}
	}
}

// A plan makes a real device the wanted one: then nothing differs.
func TestARealDeviceTakesThePlan(t *testing.T) {
	bind := anyPort{bindtest.NewChannelBinds()[0]}
	d := device.NewDevice(tuntest.NewChannelTUN().TUN(), bind, device.NewLogger(device.LogLevelSilent, ""))
	defer d.Close()
	read := func() Status {
		t.Helper()
		text, err := d.IpcGet()
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseUAPI(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var last *Config
	for _, change := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.Peers = c.Peers[:1] },
		func(c *Config) { c.ListenPort = 6000 },
		func(c *Config) {
			c.PrivateKey = key(7)
			c.Peers[0].AllowedIPs, c.Peers[1].AllowedIPs = prefixes("10.1.2.0/24"), nil
		},
	} {
		w := wanted()
		// This bind knows only endpoints that are numbers.
		w.Peers[0].Endpoint = netip.AddrPort{}
		change(&w)
		if err := d.IpcSet(EncodeUAPI(Plan(w, last, read(), time.Now()))); err != nil {
			t.Fatal(err)
		}
		if left := Plan(w, last, read(), time.Now()); !Empty(left) {
			t.Errorf("still to send:\n%s", EncodeUAPI(left))
		}
		if s := read(); s.PublicKey != w.PrivateKey.Public() || len(s.Peers) != len(w.Peers) {
			t.Errorf("%+v", s)
		}
		last = &w
	}
}

func TestParseUAPI(t *testing.T) {
	s, err := ParseUAPI("private_key=" + hexOf(own) + "\nlisten_port=7\nfwmark=1\npublic_key=" + hexOf(key(1)) +
		"\npreshared_key=00\nprotocol_version=1\nendpoint=[2001:db8::1]:9\nlast_handshake_time_sec=5\nlast_handshake_time_nsec=6\ntx_bytes=7\nrx_bytes=8\n" +
		"persistent_keepalive_interval=25\nallowed_ip=10.0.0.0/8\nallowed_ip=fd00::/8\npublic_key=" + hexOf(key(2)) + "\nlast_handshake_time_sec=0\nlast_handshake_time_nsec=0\n")
	if err != nil || s.PublicKey != own.Public() || s.ListenPort != 7 || len(s.Peers) != 2 {
		t.Fatalf("%+v %v", s, err)
	}
	p := s.Peers[0]
	if p.PublicKey != key(1) || p.Endpoint != at("[2001:db8::1]:9") || !p.LastHandshake.Equal(time.Unix(5, 6)) || p.Tx != 7 || p.Rx != 8 ||
		p.Keepalive != KeepNAT || !slices.Equal(p.AllowedIPs, prefixes("10.0.0.0/8", "fd00::/8")) {
		t.Errorf("%+v", p)
	}
	if !s.Peers[1].LastHandshake.IsZero() {
		t.Error("a handshake that never was")
	}
	for _, bad := range []string{"private_key=zz", "listen_port=70000", "public_key=00", "public_key=" + hexOf(own) + "\nendpoint=x", "public_key=" + hexOf(own) + "\nallowed_ip=x"} {
		if _, err := ParseUAPI(bad); err == nil || strings.Contains(err.Error(), hexOf(own)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What the kernel says of a device leads to the same plans.
func TestKernelStatus(t *testing.T) {
	w := wanted().Normal()
	d := &wgtypes.Device{Name: "wg0", PublicKey: wgtypes.Key(own.Public()), ListenPort: 5000}
	for _, p := range Plan(w, nil, Status{}, time.Now()).Peers {
		d.Peers = append(d.Peers, wgtypes.Peer{
			PublicKey: p.PublicKey, Endpoint: p.Endpoint, PersistentKeepaliveInterval: *p.PersistentKeepaliveInterval, AllowedIPs: p.AllowedIPs,
			LastHandshakeTime: time.Unix(5, 0), ReceiveBytes: 1, TransmitBytes: 2,
		})
	}
	s := kernelStatus(d)
	if change := Plan(w, nil, s, time.Now()); !Empty(change) {
		t.Errorf("a device that is right would be sent\n%s", EncodeUAPI(change))
	}
	if p := s.Peers[0]; p.Rx != 1 || p.Tx != 2 || !p.LastHandshake.Equal(time.Unix(5, 0)) || s.Name != "wg0" {
		t.Errorf("%+v", s)
	}
}
