package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// file writes a configuration file.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "croftd.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func value(t *testing.T, l *config.Loaded, name string) config.Value {
	t.Helper()
	i := slices.IndexFunc(l.Values, func(v config.Value) bool { return v.Setting.Name == name })
	if i < 0 {
		t.Fatalf("no value of %s", name)
	}
	return l.Values[i]
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	name := file(t, "# a node\nheartbeat: 10s\npoll-wait: 11s\nlog-level: warn\n")
	l, err := config.Load(config.From{Modules: module.Settings(modules.All()),
		File:    name,
		Environ: []string{"CROFT_HEARTBEAT=20s", "CROFT_POLL_WAIT=21s", "HOME=/root"},
		Flags:   map[string]string{"heartbeat": "30s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, source string }{
		{"heartbeat", "30s", "flag --heartbeat"},
		{"poll-wait", "21s", "environment CROFT_POLL_WAIT"},
		{"log-level", "warn", name + " line 4"},
		{"log-format", "json", "default"},
	} {
		if v := value(t, l, c.name); v.Text != c.text || v.Source != c.source {
			t.Errorf("%s is %q from %q, want %q from %q", c.name, v.Text, v.Source, c.text, c.source)
		}
	}
	if l.Heartbeat != 30*time.Second || l.PollWait != 21*time.Second || l.LogLevel != "warn" {
		t.Errorf("in force: %s %s %s", l.Heartbeat, l.PollWait, l.LogLevel)
	}
}

// Many users' shells set CROFT_EXPLORER for the user's command.
func TestTheUsersExplorerIsNotTheNodes(t *testing.T) {
	name := file(t, "explorer: https://one.example.org\n")
	for _, c := range []struct {
		from         config.From
		text, source string
	}{
		{config.From{Modules: module.Settings(modules.All()), File: name, Environ: []string{"CROFT_EXPLORER=https://two.example.org"}}, "https://one.example.org", name + " line 1"},
		{config.From{Modules: module.Settings(modules.All()), File: file(t, "heartbeat: 10s\n"), Environ: []string{"CROFT_EXPLORER=https://two.example.org"}}, "https://two.example.org", "environment CROFT_EXPLORER"},
		{config.From{Modules: module.Settings(modules.All()), File: name, Flags: map[string]string{"explorer": "https://three.example.org"}}, "https://three.example.org", "flag --explorer"},
	} {
		l, err := config.Load(c.from)
		if err != nil {
			t.Fatal(err)
		}
		if v := value(t, l, "explorer"); v.Text != c.text || v.Source != c.source {
			t.Errorf("the explorer is %q from %q, want %q from %q", v.Text, v.Source, c.text, c.source)
		}
		if l.File != c.from.File || len(l.Ignored) > 0 {
			t.Errorf("the file is %q, ignored is %v", l.File, l.Ignored)
		}
	}
}

func TestDefaultsFollowTheRunDir(t *testing.T) {
	l, err := config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{"run-dir": "/run/other"}})
	if err != nil {
		t.Fatal(err)
	}
	if l.BusListen != "unix:///run/other/bus.sock" || l.StateSocket != "/run/other/state.sock" {
		t.Fatalf("sockets are at %s and %s", l.BusListen, l.StateSocket)
	}
	if l.MaxDuration != 365*24*time.Hour || l.Grace != 7*24*time.Hour || l.PoolSize != 20<<30 || l.PoolType != workload.SSD {
		t.Fatalf("defaults: %+v", l.Config)
	}
}

func TestEveryKindOfValue(t *testing.T) {
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.From{Modules: module.Settings(modules.All()), File: file(t, `
explorer: https://explorer.example.org/
farm-id: 7
disk:
  - SSD:/dev/nvme0n1
  - HDD:/dev/sda
  - /dev/sdb
wipe-disk: /dev/sda
reserve-memory: 1GiB
allow-users: [`+user.ID()+`]
allow-private:
  - 192.168.7.0/24
  - 10.0.0.5/32:6379
  - fd00:7::/32:443
  - hub.farm.example:443
accept-signature-v1: true
trust-explorer-clock: true
health-listen: none
bus-listen: none
`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Disk{{Type: workload.SSD, Path: "/dev/nvme0n1"}, {Type: workload.HDD, Path: "/dev/sda"}, {Path: "/dev/sdb"}}
	switch {
	case l.Explorer != "https://explorer.example.org":
		t.Errorf("explorer %q", l.Explorer)
	case l.FarmID != 7 || !l.AcceptSignatureV1 || !l.TrustExplorerClock || l.Reserve.Memory != 1<<30:
		t.Errorf("%+v", l.Config)
	case !reflect.DeepEqual(l.Disks, want) || !reflect.DeepEqual(l.WipeDisks, []string{"/dev/sda"}):
		t.Errorf("disks %v, wipe %v", l.Disks, l.WipeDisks)
	case !reflect.DeepEqual(l.AllowUsers, []string{user.ID()}):
		t.Errorf("users %v", l.AllowUsers)
	case fmt.Sprint(l.AllowPrivate) != "[192.168.7.0/24 10.0.0.5/32:6379 fd00:7::/32:443 hub.farm.example:443]":
		t.Errorf("exceptions %v", l.AllowPrivate)
	case l.HealthListen != "" || l.BusListen != "":
		t.Errorf("listeners %q %q", l.HealthListen, l.BusListen)
	}
}

// TestRefused is the specification of the operator's error messages.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, file, env, flag, want string }{
		{"unknown key", "heartbeat: 1s\nhartbeat: 2s\n", "", "", `cannot use "hartbeat" (from FILE line 2): no such setting`},
		{"near key", "state: /x\n", "", "", `no such setting (is state-dir meant?)`},
		{"key twice", "heartbeat: 1s\nheartbeat: 2s\n", "", "", "line 2"},
		{"not a mapping", "- a\n", "", "", "FILE line 1: it must be a mapping of settings"},
		{"not yaml", "a: [\n", "", "", "cannot read the configuration FILE"},
		{"mapping as value", "heartbeat: {a: b}\n", "", "", "cannot use heartbeat (from FILE line 1): it must be a duration"},
		{"list as value", "heartbeat: [1s]\n", "", "", "cannot use heartbeat (from FILE line 1): it must be a duration"},
		{"comma in a list", "disk: ['SSD:/dev/a,b']\n", "", "", "a list of plain values without commas"},
		{"duration", "", "", "heartbeat=soon", `cannot use heartbeat = "soon" (from flag --heartbeat): it must be a duration above 0`},
		{"zero duration", "", "", "heartbeat=0s", "a duration above 0"},
		{"size", "", "CROFT_POOL_SIZE=4GB", "", `cannot use pool-size = "4GB" (from environment CROFT_POOL_SIZE): it must be a whole number with B, KiB`},
		{"size overflow", "", "", "pool-size=8388608TiB", "below 2^63 bytes"},
		{"empty size", "pool-size:\n", "", "", `cannot use pool-size = "" (from FILE line 1)`},
		{"small pool", "", "", "pool-size=1MiB", "it must be at least 256MiB when no disks are named"},
		{"number", "farm-id: -1\n", "", "", "a whole number"},
		{"switch", "accept-signature-v1: yes please\n", "", "", "true or false"},
		{"a clock that is trusted somewhat", "", "", "trust-explorer-clock=stop", "true or false"},
		{"type", "", "", "pool-type=NVME", "one of SSD, HDD"},
		{"disk", "", "", "disk=NVME:/dev/sda", `SSD:/dev/name or HDD:/dev/name; "NVME:/dev/sda" isn't`},
		{"relative disk", "", "", "disk=sda", `"sda" isn't`},
		{"disk twice", "", "", "disk=SSD:/dev/a,HDD:/dev/a", "/dev/a is named twice"},
		{"wipe of none", "", "", "wipe-disk=/dev/a", "/dev/a isn't"},
		{"relative path", "", "", "state-dir=here", "an absolute path"},
		{"same dirs", "", "", "run-dir=/var/lib/croft", "another folder than state-dir"},
		{"explorer", "", "", "explorer=ftp://x", "a URL such as https://"},
		{"explorer with a password", "", "", "explorer=http://me:pw@host", "without user and query"},
		{"bus", "", "", "bus=unix://relative", "unix:///absolute/path or redis://"},
		{"bus-listen", "", "", "bus-listen=tcp://0.0.0.0:1", "unix:///absolute/path, or none"},
		{"health-listen", "", "", "health-listen=9177", "host:port with a port of 0 to 65535, or none"},
		{"port", "", "", "health-listen=127.0.0.1:70000", "host:port with a port of 0 to 65535"},
		{"level", "", "", "log-level=loud", "one of trace, debug, info, warn, error"},
		{"exception", "", "", "allow-private=10.0.0.0/8,lan", `it must be ranges and addresses: cannot read exception "lan"`},
		{"exception with bits below its mask", "allow-private: [192.168.7.1/24]\n", "", "", `exception "192.168.7.1/24": it has bits below its mask: allowed are CIDR, CIDR:port and host:port`},
		{"exception for all", "", "CROFT_ALLOW_PRIVATE=0.0.0.0/0", "", "it is wider than"},
		{"exception without a port", "", "", "allow-private=hub.farm.example", `exception "hub.farm.example"`},
		{"user", "", "", "allow-users=me", `user IDs, the base58 of 32 bytes; "me" isn't one`},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := config.From{Modules: module.Settings(modules.All()), File: file(t, c.file), Environ: []string{c.env}, Flags: map[string]string{}}
			if name, text, ok := strings.Cut(c.flag, "="); ok {
				from.Flags[name] = text
			}
			_, err := config.Load(from)
			if err == nil {
				t.Fatal("it was accepted")
			}
			want := strings.ReplaceAll(c.want, "FILE", from.File)
			if !strings.HasPrefix(err.Error(), "cannot ") || !strings.Contains(err.Error(), want) {
				t.Fatalf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestANamedFileMustBeThere(t *testing.T) {
	_, err := config.Load(config.From{Modules: module.Settings(modules.All()), File: filepath.Join(t.TempDir(), "no.yaml")})
	if err == nil || !strings.HasPrefix(err.Error(), "cannot read the configuration") {
		t.Fatalf("got %v", err)
	}
}

func TestUnknownEnvironmentIsNamed(t *testing.T) {
	l, err := config.Load(config.From{Modules: module.Settings(modules.All()), Environ: []string{"CROFT_STATEDIR=/x", "CROFT_CONFIG=/y", "CROFT_STATE_DIR=/z"}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.Ignored, []string{"CROFT_STATEDIR"}) || l.StateDir != "/z" {
		t.Fatalf("ignored %v, state-dir %s", l.Ignored, l.StateDir)
	}
}

func TestPrintedYAMLIsAConfiguration(t *testing.T) {
	l, err := config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{
		"pool-size": "4GiB", "explorer": "http://127.0.0.1:1", "disk": "SSD:/dev/a,HDD:/dev/b", "log-format": "text", "bus-listen": "none",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := l.Print(&out, "yaml"); err != nil {
		t.Fatal(err)
	}
	again, err := config.Load(config.From{Modules: module.Settings(modules.All()), File: file(t, out.String())})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !reflect.DeepEqual(l.Config, again.Config) {
		t.Fatalf("printed and read again:\n%+v\n%+v", l.Config, again.Config)
	}
	if !strings.Contains(out.String(), "pool-size: 4GiB # flag --pool-size\n") {
		t.Fatalf("no source in\n%s", out.String())
	}
}

func TestPasswordsAreMasked(t *testing.T) {
	const password = "opensesame"
	from := config.From{Modules: module.Settings(modules.All()), Environ: []string{"CROFT_BUS=redis://:" + password + "@127.0.0.1:6379"}}
	l, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.Bus, password) {
		t.Fatalf("the bus in force is %s", l.Bus)
	}
	for _, format := range []string{"yaml", "json"} {
		var out bytes.Buffer
		if err := l.Print(&out, format); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), password) || !strings.Contains(out.String(), "xxxxx@127.0.0.1:6379") {
			t.Errorf("%s shows the password:\n%s", format, out.String())
		}
	}
	l, err = config.Load(config.From{Modules: module.Settings(modules.All()), Environ: []string{"CROFT_BUS=tcp://" + password + "@127.0.0.1:6379"}})
	if err != nil || strings.Contains(fmt.Sprint(l.Show()), password) {
		t.Errorf("a password in the place of the user is shown, or: %v", err)
	}
	_, err = config.Load(config.From{Modules: module.Settings(modules.All()), Environ: []string{"CROFT_BUS=redis://:" + password + "%zz@127.0.0.1:6379"}})
	if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "127.0.0.1:6379") {
		t.Errorf("of a URL that can't be read the error is: %v", err)
	}
	_, err = config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{"explorer": "ftp://me:" + password + "@host"}})
	if err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("the error shows the password: %v", err)
	}
}

func TestPrintJSON(t *testing.T) {
	l, err := config.Load(config.From{Modules: module.Settings(modules.All())})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := l.Print(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var shown []config.Shown
	if err := json.Unmarshal(out.Bytes(), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown) != len(config.Settings(module.Settings(modules.All()))) || shown[0] != (config.Shown{Name: "state-dir", Value: "/var/lib/croft", Source: "default"}) {
		t.Fatalf("%d values, first %+v", len(shown), shown[0])
	}
	if err := l.Print(&out, "xml"); err == nil || !strings.Contains(err.Error(), "yaml or json") {
		t.Fatalf("xml: %v", err)
	}
}

func TestSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<63-1).Draw(t, "n")
		unit := rapid.SampledFrom([]string{"", "B", "KiB", "MiB", "GiB", "TiB"}).Draw(t, "unit")
		shift := map[string]uint{"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[unit]
		got, err := config.ParseSize(strconv.FormatUint(n, 10) + unit)
		fits := n<<shift>>shift == n && n<<shift < 1<<63
		if fits != (err == nil) || (err == nil && got != n<<shift) {
			t.Fatalf("%d%s: %d, %v", n, unit, got, err)
		}
	})
	for _, text := range []string{"", "GiB", "4 GiB", "4gib", "-1", "4GiBGiB", "1.5GiB", "0x10", "1e3"} {
		if n, err := config.ParseSize(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
}
