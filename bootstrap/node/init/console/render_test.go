package console

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
)

var update = flag.Bool("update", false, "write the golden screens anew")

// now is the time of the tests' views.
func now() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC) }

func ago(d time.Duration) time.Time { return now().Add(-d) }

// booted is a machine whose node hasn't been heard of.
func booted() View {
	return View{
		Now: now(), Uptime: 9 * time.Second, Kernel: "6.1.0-35-amd64", Image: Image{Version: "1.4.0", Slot: "a"},
		Memory: 8 << 30, Free: 7 << 30, Load: [3]float64{0.4, 0.1, 0},
		Node: Node{Answer: Starting, Since: ago(9 * time.Second)},
	}
}

// healthy is a node that has nothing to complain about.
func healthy() View {
	v := booted()
	v.Uptime = 75*time.Hour + 20*time.Minute
	v.Interfaces = []Interface{
		{Name: "eth0", Carrier: true, Addresses: []string{"192.0.2.17/24", "2001:db8::17/64"}},
		{Name: "eth1"},
	}
	v.Door = "192.0.2.17:9178"
	for _, name := range []string{"chronyd", "containerd", "container", "debug", "identity", "monitor", "network", "provision", "redis", "storage", "vm", "zdb"} {
		v.Services = append(v.Services, service.State{Name: name, PID: 100, Ready: true, Since: ago(75 * time.Hour)})
	}
	v.Services[11].Ends, v.Services[11].Since = 2, ago(20*time.Minute)
	v.Node = Node{
		Answer: Answering, Since: ago(75 * time.Hour), ID: "9fUL33FFZhbQsBUtHjVkPQjhwGpq5ZvXYSAf5YdRXeQd", Version: "v1.4.0", Farm: 7,
		Explorer: "https://explorer.example.org", Contact: Contact{Since: ago(3 * time.Hour), Last: ago(4 * time.Second)},
		Clock: Clock{Level: "remove", Source: "ntp"}, Counters: workload.ProvisionCounters{Container: 12, Volume: 9, Network: 3, ZDB: 4, VM: 1},
		Pools: []Pool{
			{Name: "f3c6a1d9", Type: "SSD", Total: 931 << 30, Free: 802 << 30},
			{Name: "07be55e2", Type: "HDD", Total: 3 << 40, Free: 3 << 40 / 2},
		},
		Ready: true, Checks: []host.Check{host.Pass("bus", "every module answers"), host.Pass("clock", "the clock is trusted")},
	}
	return v
}

func noNetwork() View {
	v := healthy()
	v.Uptime, v.Door = 3*time.Minute, ""
	v.Interfaces = []Interface{{Name: "enp1s0f0"}, {Name: "enp1s0f1", Carrier: true, Error: "no DHCP server has answered for 2 minutes"}}
	v.Node.Contact = Contact{Error: "dial tcp: lookup explorer.example.org: Temporary failure in name resolution"}
	v.Node.Clock = Clock{Level: "none", Why: "nothing vouches for the time"}
	v.Node.Checks = []host.Check{
		host.Warn("clock", "the clock isn't trusted, nothing is expired or refused by it: nothing vouches for the time"),
		host.Warn("explorer", "no contact since the start: dial tcp: lookup explorer.example.org: Temporary failure in name resolution"),
	}
	return v
}

func noDisk() View {
	v := healthy()
	v.Diskless, v.Node.Pools, v.Node.Ready = true, nil, false
	v.Left = []LeftDisk{{"/dev/sda", "it has a partition table (gpt)"}, {"/dev/sdb", "it has a file system (ext4, label backup)"}}
	v.Node.Checks = []host.Check{host.Fail("pools", "no pool works")}
	return v
}

func away() View {
	v := healthy()
	v.Node.Contact = Contact{Last: ago(42 * time.Minute), Error: "connection refused"}
	v.Node.Checks = []host.Check{host.Warn("explorer", "last contact 42m0s ago: connection refused"), host.Warn("results", "3 results wait for the explorer")}
	return v
}

func stuck() View {
	v := healthy()
	v.Stuck = 95 * time.Second
	v.Node = Node{
		Answer: Silent, Since: ago(2 * time.Minute), Why: "it took longer than 3s to answer",
		ID: v.Node.ID, Version: v.Node.Version, Farm: 7, Explorer: v.Node.Explorer,
	}
	return v
}

func manyProblems() View {
	v := noDisk()
	v.Image = Image{Version: "1.5.0", Slot: "b", Trial: true, Upgrade: "1.5.0 is on trial", Failed: "cannot fetch https://images.example.org/node/image.json: status 503"}
	v.Refused = []string{`cannot use reserve-memory "1 GB": it must be a size such as 4GiB`}
	for i := range 9 {
		v.Interfaces = append(v.Interfaces, Interface{Name: fmt.Sprintf("eth%d", 2+i), Carrier: true, Error: "no DHCP server has answered for 2 minutes"})
	}
	v.Node.Pools = []Pool{{Name: "a", Type: "SSD", Broken: "cannot mount it: input/output error"}, {Name: "b", Type: "HDD"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	v.Services[6] = service.State{Name: "network", Since: ago(time.Second), Ends: 7, LastEnd: "exit status 1"}
	v.Services[3] = service.State{Name: "debug", PID: 7, Since: ago(2 * time.Minute), Cause: "it doesn't answer on the bus"}
	v.Problems = []Problem{{Warning, "watchdog", "cannot watch over this machine: it has no watchdog"}, {Failing, "storage", "cannot keep the state: the volume is full"}}
	return v
}

// hostile has control characters, escape sequences and long texts in all that comes from outside.
func hostile() View {
	bad := "\x1b[2J\x1b]0;owned\x07\r\n\u009b31m\u202e\xff" + strings.Repeat("A日", 5000)
	v := healthy()
	v.Image, v.Kernel, v.Door = Image{Version: bad, Slot: bad, Upgrade: bad, Failed: bad}, bad, bad
	v.Interfaces = []Interface{{Name: bad, Carrier: true, Addresses: []string{bad}, Error: bad}}
	v.Services = []service.State{{Name: bad, Ends: 1, LastEnd: bad}}
	v.Refused, v.Left, v.Problems = []string{bad}, []LeftDisk{{bad, bad}}, []Problem{{Severity(99), bad, bad}, {Severity(-1), bad, bad}}
	v.Node.ID, v.Node.Version, v.Node.Explorer, v.Node.Why = bad, bad, bad, bad
	v.Node.Contact.Error, v.Node.Clock = bad, Clock{bad, bad, bad}
	v.Node.Pools = []Pool{{Name: bad, Type: bad}, {Name: bad, Type: bad, Broken: bad}}
	v.Node.Checks = []host.Check{host.Fail(bad, bad)}
	return v
}

// screens are views by their names.
func screens() map[string]View {
	return map[string]View{
		"healthy": healthy(), "booted": booted(), "nodisk": noDisk(), "nonetwork": noNetwork(), "away": away(), "stuck": stuck(),
		"problems": manyProblems(), "hostile": hostile(),
	}
}

func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestScreens(t *testing.T) {
	for name, v := range screens() {
		golden(t, name+"-80x25", Render(v, 80, 25))
		golden(t, name+"-132x43", Render(v, 132, 43))
		golden(t, name+"-serial", summary(v))
	}
}

// fits fails unless lines are a screen of printable ASCII.
func fits(t interface{ Fatalf(string, ...any) }, lines []string, width, height int) {
	if len(lines) != height {
		t.Fatalf("%d lines on a screen of %d", len(lines), height)
	}
	for n, l := range lines {
		if len(l) > width || strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("line %d of %dx%d: %q", n, width, height, l)
		}
	}
}

// TestEverySize holds that every view fits every screen, and is printable.
func TestEverySize(t *testing.T) {
	all := screens()
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(1, 300).Draw(t, "width"), rapid.IntRange(1, 100).Draw(t, "height")
		for _, v := range all {
			fits(t, Render(v, width, height), width, height)
		}
	})
}

// TestOnlyWhatMattersIsCut holds that the worst problem is on the smallest screen, and how many aren't.
func TestOnlyWhatMattersIsCut(t *testing.T) {
	lines := strings.Join(Render(manyProblems(), 80, 25), "\n")
	for _, want := range []string{"!! storage: cannot keep the state", "NO DISK", "NOT READY", "and ", keysLine} {
		if !strings.Contains(lines, want) {
			t.Errorf("the screen lacks %q:\n%s", want, lines)
		}
	}
}

func TestLengths(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "less than 1 min", 59 * time.Second: "less than 1 min", time.Minute: "1 min", 61 * time.Minute: "1 h 1 min", 49 * time.Hour: "2 d 1 h",
	} {
		if got := length(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1023: "1.0 KiB", 1 << 30: "1.0 GiB", 931 << 30: "931 GiB", 1 << 63: "8.0 EiB"} {
		if got := size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
