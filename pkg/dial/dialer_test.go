package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// untouchable is a resolver that may not be asked.
type untouchable struct{ t *testing.T }

func (u untouchable) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	u.t.Errorf("asked for %q", host)
	return nil, errors.New("asked")
}

func TestLiteralsAndGarbageReachNoResolver(t *testing.T) {
	home := newDoor(t, "127.0.0.1:0")
	d := newDialer(t, Config{Resolver: untouchable{t}})
	for _, host := range strings.Fields("127.0.0.1 [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7F00:0001] [::127.0.0.1] [64:ff9b::7f00:1] 0.0.0.0 [::]") {
		wantError(t, dialNow(t, d, "tcp", host+":"+home.port()), node.Refused, "in a range that is refused", "may list an exception")
	}
	for _, host := range strings.Fields("2130706433 0177.0.0.1 0x7f.1 0x7f000001 127.1 017700000001 127.0.0.1. 0 [::1%lo] [fe80::1%1] [127.0.0.1] u@127.0.0.1") {
		wantError(t, dialNow(t, d, "tcp", host+":"+home.port()), node.Invalid)
	}
	wantError(t, dialNow(t, d, "tcp", ":"+home.port()), node.Invalid)
	if n := home.came.Load(); n != 0 {
		t.Errorf("%d connections came", n)
	}
}

func TestOnlyTCP(t *testing.T) {
	d := newDialer(t, Config{Resolver: untouchable{t}})
	for _, network := range []string{"", "udp", "ip", "ip4:1", "unix", "unixgram", "tcp ", "TCP", "tcp46"} {
		wantError(t, dialNow(t, d, network, "hub.example:80"), node.Invalid, "allowed are tcp, tcp4 and tcp6")
	}
}

func TestAnExceptionLeadsThere(t *testing.T) {
	home, other := newDoor(t, "127.0.0.1:0"), newDoor(t, "127.0.0.1:0")
	d := newDialer(t, Config{}, "127.0.0.1:"+home.port())
	for _, network := range []string{"tcp", "tcp4"} {
		for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]"} {
			if err := dialNow(t, d, network, host+":"+home.port()); err != nil {
				t.Error(err)
			}
		}
	}
	wantError(t, dialNow(t, d, "tcp6", "127.0.0.1:"+home.port()), node.Transient, "over tcp6: it has no such address")
	wantError(t, dialNow(t, d, "tcp4", "[2606:4700::1]:80"), node.Transient, "over tcp4: it has no such address")
	wantError(t, dialNow(t, d, "tcp", "127.0.0.1:"+other.port()), node.Refused, "loopback (127.0.0.0/8)")
	wantError(t, dialNow(t, d, "tcp", "127.0.0.2:"+home.port()), node.Refused, "127.0.0.2")
	if other.came.Load() != 0 {
		t.Error("somebody came to the other door")
	}
}

func TestNames(t *testing.T) {
	home := newDoor(t, "127.0.0.2:0")
	port := home.port()
	dns := newNameServer(t, map[string][]string{
		"home.example A":      {"127.0.0.1"},
		"six.example AAAA":    {"::1"},
		"mapped.example AAAA": {"::ffff:127.0.0.1"},
		"nat.example AAAA":    {"64:ff9b::7f00:1"},
		"cloud.example A":     {"169.254.169.254"},
		"mixed.example A":     {"127.0.0.2 8.8.8.8 127.0.0.1"},
		"split.example A":     {"127.0.0.2"}, "split.example AAAA": {"::1"},
		"good.example A": {"127.0.0.2"},
		"bare.example A": {""}, "bare.example AAAA": {""},
		"2130706433.example A": {"127.0.0.2"},
	})
	d := newDialer(t, Config{Resolver: dns.resolver()}, "127.0.0.2:"+port)
	for _, c := range []struct {
		network, host string
		kind          node.Kind
		says          string
	}{
		{"tcp", "home.example", node.Refused, "home.example resolves to 127.0.0.1, which is in a range that is refused: loopback (127.0.0.0/8)"},
		{"tcp", "six.example", node.Refused, "resolves to ::1, which"},
		{"tcp", "mapped.example", node.Refused, "resolves to 127.0.0.1, which"},
		{"tcp", "nat.example", node.Refused, "leads to 127.0.0.1, which"},
		{"tcp", "cloud.example", node.Refused, "link-local (169.254.0.0/16)"},
		{"tcp", "mixed.example", node.Refused, "resolves to 127.0.0.1, which"},
		{"tcp", "split.example", node.Refused, "resolves to ::1, which"},
		{"tcp4", "split.example", node.Refused, "resolves to ::1, which"},
		{"tcp", "good.example", "", ""},
		{"tcp", "GOOD.Example.", "", ""},
		{"tcp4", "good.example", "", ""},
		{"tcp6", "good.example", node.Transient, "has no such address"},
		{"tcp", "2130706433.example", "", ""},
		{"tcp", "bare.example", node.Transient, "cannot resolve bare.example"},
		{"tcp", "nobody.example", node.Transient, "cannot resolve nobody.example"},
	} {
		before := home.came.Load()
		err := dialNow(t, d, c.network, c.host+":"+port)
		if c.kind != "" {
			wantError(t, err, c.kind, "cannot dial "+c.host+":"+port, c.says)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.host, err)
		}
		for range 100 {
			if home.came.Load() > before {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if home.came.Load() != before+1 {
			t.Errorf("%s: nobody came", c.host)
		}
	}
	if n := dns.count("GOOD.Example", "A"); n != 0 {
		t.Error("asked in upper case")
	}
}

// TestNamesOfThisMachine: the default resolver reads the hosts file.
func TestNamesOfThisMachine(t *testing.T) {
	home := newDoor(t, "127.0.0.1:0")
	d := newDialer(t, Config{})
	wantError(t, dialNow(t, d, "tcp", "localhost:"+home.port()), node.Refused, "localhost resolves to", "loopback")
	wantError(t, dialNow(t, d, "tcp", "LocalHost.:"+home.port()), node.Refused, "loopback")
	if home.came.Load() != 0 {
		t.Error("somebody came")
	}
}

// TestRebinding: the name is looked up once, and the connection goes to the
// judged address, whatever the name's later answers.
func TestRebinding(t *testing.T) {
	home := newDoor(t, "127.0.0.2:0")
	secret := newDoor(t, "127.0.0.1:"+home.port())
	dns := newNameServer(t, map[string][]string{"turn.example A": {"127.0.0.2", "127.0.0.1"}, "turn.example AAAA": {""}})
	d := newDialer(t, Config{Resolver: dns.resolver()}, "127.0.0.2:"+home.port())
	conn, err := d.DialContext(t.Context(), "tcp", "turn.example:"+home.port())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.RemoteAddr().String(); got != "127.0.0.2:"+home.port() {
		t.Errorf("connected to %s", got)
	}
	if a, aaaa := dns.count("turn.example", "A"), dns.count("turn.example", "AAAA"); a != 1 || aaaa != 1 {
		t.Errorf("asked %d times for A, %d for AAAA", a, aaaa)
	}
	wantError(t, dialNow(t, d, "tcp", "turn.example:"+home.port()), node.Refused, "127.0.0.1")
	if secret.came.Load() != 0 {
		t.Error("somebody came to the secret door")
	}
}

func TestAHostExceptionIsForThatNameAndPort(t *testing.T) {
	home, other := newDoor(t, "127.0.0.1:0"), newDoor(t, "127.0.0.1:0")
	dns := newNameServer(t, map[string][]string{"hub.lan A": {"127.0.0.1"}, "sub.hub.lan A": {"127.0.0.1"}, "xhub.lan A": {"127.0.0.1"}})
	d := newDialer(t, Config{Resolver: dns.resolver()}, "hub.lan:"+home.port())
	for _, host := range []string{"hub.lan", "HUB.lan."} {
		if err := dialNow(t, d, "tcp", host+":"+home.port()); err != nil {
			t.Error(err)
		}
	}
	for _, address := range []string{"sub.hub.lan:" + home.port(), "xhub.lan:" + home.port(), "127.0.0.1:" + home.port(), "hub.lan:" + other.port()} {
		wantError(t, dialNow(t, d, "tcp", address), node.Refused, "loopback")
	}
	if other.came.Load() != 0 {
		t.Error("somebody came to the other door")
	}
}

// TestOwnRangesCountAtOnce: a network that appears between two dials, and even
// between the check and the connect. Nothing leaves the machine: the socket is
// refused before it connects.
func TestOwnRangesCountAtOnce(t *testing.T) {
	var calls, from atomic.Int32
	from.Store(1 << 30)
	d := newDialer(t, Config{Own: func() []netip.Prefix {
		if calls.Add(1) >= from.Load() {
			return []netip.Prefix{netip.MustParsePrefix("11.22.0.0/16")}
		}
		return nil
	}})
	to := netip.MustParseAddrPort("11.22.33.44:80")
	if err := d.Judge(to); err != nil {
		t.Fatal(err)
	}
	from.Store(calls.Load() + 1)
	wantError(t, d.Judge(to), node.Refused, "a tenant's network")
	wantError(t, dialNow(t, d, "tcp", to.String()), node.Refused, "a tenant's network")

	before := calls.Load()
	from.Store(before + 2)
	wantError(t, dialNow(t, d, "tcp", to.String()), node.Refused, "a tenant's network")
	if n := calls.Load() - before; n != 2 {
		t.Errorf("judged %d times: want once after resolving, once before connecting", n)
	}
}

// TestTheSocketIsTheJudgedOne: the last check is of the address, not only of the ranges.
func TestTheSocketIsTheJudgedOne(t *testing.T) {
	d := newDialer(t, Config{})
	tgt := target{name: "hub.example", port: 80}
	to := netip.MustParseAddrPort("8.8.8.8:80")
	for _, peer := range []string{"8.8.4.4:80", "8.8.8.8:81", "[::1]:80", "junk", ""} {
		wantError(t, d.judgePeer(tgt, to, peer), node.Internal, "not to 8.8.8.8:80")
	}
	for _, peer := range []string{"8.8.8.8:80", "[::ffff:8.8.8.8]:80"} {
		if err := d.judgePeer(tgt, to, peer); err != nil {
			t.Error(err)
		}
	}
}

func TestASlowResolverIsLeft(t *testing.T) {
	dns := newNameServer(t, map[string][]string{"slow.example A": {"silence"}, "slow.example AAAA": {"silence"}})
	start := time.Now()
	err := dialNow(t, newDialer(t, Config{Resolver: dns.resolver(), Timeout: 400 * time.Millisecond}), "tcp", "slow.example:80")
	wantError(t, err, node.Transient, "cannot resolve slow.example")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = newDialer(t, Config{Resolver: dns.resolver()}).DialContext(ctx, "tcp", "slow.example:80")
	wantError(t, err, node.Transient, "cannot resolve slow.example")
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestACancelledDialEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := newDialer(t, Config{})
	d.connect = func(ctx context.Context, _ string, _ netip.AddrPort, _ control) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := d.DialContext(ctx, "tcp", "8.8.8.8:80")
	wantError(t, err, node.Transient, "cannot dial 8.8.8.8:80")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("lost its cause: %v", err)
	}
}

func TestTheNextAddressIsTried(t *testing.T) {
	home := newDoor(t, "127.0.0.3:0")
	dns := newNameServer(t, map[string][]string{"two.example A": {"127.0.0.2 127.0.0.3"}, "many.example A": {"127.0.0.2 127.0.0.4 127.0.0.5 127.0.0.6 127.0.0.7 127.0.0.8"}})
	d := newDialer(t, Config{Resolver: dns.resolver()}, "127.0.0.0/8:"+home.port())
	if err := dialNow(t, d, "tcp", "two.example:"+home.port()); err != nil {
		t.Error(err)
	}
	tries, real := 0, d.connect
	d.connect = func(ctx context.Context, network string, to netip.AddrPort, check control) (net.Conn, error) {
		tries++
		return real(ctx, network, to, check)
	}
	wantError(t, dialNow(t, d, "tcp", "many.example:"+home.port()), node.Transient, "connection refused")
	if tries != maxAttempts {
		t.Errorf("tried %d addresses", tries)
	}
}

// asked is a resolver that records the names of its calls and the last one's time limit.
type asked struct {
	hosts []string
	time  time.Duration
}

func (a *asked) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	deadline, _ := ctx.Deadline()
	a.hosts, a.time = append(a.hosts, network+" "+host), time.Until(deadline)
	return nil, nil
}

// TestResolverQueries: no search list turns a name with a dot into
// another, and half of the time is left to connect.
func TestResolverQueries(t *testing.T) {
	a := &asked{}
	d := newDialer(t, Config{Resolver: a, Timeout: time.Minute})
	for _, address := range []string{"Hub.example:80", "hub.example.:80", "hub:80"} {
		wantError(t, dialWithout(t, d, address), node.Transient, "has no address")
	}
	if got := strings.Join(a.hosts, ","); got != "ip hub.example.,ip hub.example.,ip hub" {
		t.Errorf("asked for %s", got)
	}
	if a.time <= 0 || a.time > 30*time.Second {
		t.Errorf("asked for %s", a.time)
	}
}

// dialWithout dials with no deadline but the dialer's.
func dialWithout(t *testing.T, d *Dialer, address string) error {
	t.Helper()
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err == nil {
		conn.Close()
	}
	return err
}
