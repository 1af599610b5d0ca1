package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/config/configtest"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

func loaded(t *testing.T, text string) *config.Loaded {
	t.Helper()
	l, err := config.Load(config.From{Modules: module.Settings(modules.All()), File: file(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		changed             int
		restart             string
		needs, live         string
	}{
		{name: "nothing"},
		{name: "another text of the same effect", before: "heartbeat: 60s\npool-size: 1GiB\nstate-dir: /x/\n", after: "heartbeat: 1m\npool-size: 1024MiB\nstate-dir: /x\n"},
		{name: "a default that is written down", after: "heartbeat: 1m\ndisk:\n"},
		{name: "one module", after: "dns-servers: 192.0.2.53\n", changed: 1, restart: "network"},
		{name: "two modules", after: "zdb-ports: 9900-9999\n", changed: 1, restart: "network,zdb"},
		{name: "a module's setting that another reads", after: "container-send-rate: 1MiB\n", changed: 1, restart: "network"},
		{name: "the process", after: "farm-id: 7\n", changed: 1, needs: "farm-id"},
		{name: "both", after: "max-records: 7\nimage-full: 70\nvm-accelerator: tcg\n", changed: 3, restart: "container,vm", needs: "max-records"},
		{name: "what is read again", after: "hooks-dir: /etc/other\n", changed: 1, live: "hooks-dir"},
		{name: "a default that follows another setting", after: "run-dir: /run/other\n", changed: 3, needs: "run-dir,bus-listen,state-socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := config.Diff(loaded(t, c.before), loaded(t, c.after))
			if len(got.Settings) != c.changed || got.Same != (c.changed == 0) || strings.Join(got.Restart, ",") != c.restart ||
				strings.Join(got.NeedsRestart, ",") != c.needs || strings.Join(got.Live, ",") != c.live {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestADiffShowsNoPassword(t *testing.T) {
	before, after := loaded(t, "bus: redis://:old-secret@host:6379\n"), loaded(t, "bus: redis://:new-secret@host:6379\n")
	got := config.Diff(before, after)
	if got.Same || !slices.Equal(got.NeedsRestart, []string{"bus"}) {
		t.Errorf("another password is no change: %+v", got)
	}
	for _, text := range []string{got.Settings[0].Old, got.Settings[0].New} {
		if strings.Contains(text, "secret") || text == "" {
			t.Errorf("it shows %q", text)
		}
	}
	if before.Checksum() != after.Checksum() {
		t.Error("the checksum tells something of a password")
	}
}

func TestTheChecksumIsOfTheEffect(t *testing.T) {
	base := loaded(t, "")
	if same := loaded(t, "heartbeat: 60s\nreserve-memory: 512MiB\n"); same.Checksum() != base.Checksum() || len(base.Checksum()) != 64 {
		t.Errorf("the same settings have the sums %s and %s", base.Checksum(), same.Checksum())
	}
	seen := map[string]string{base.Checksum(): "the defaults"}
	for _, s := range everySetting() {
		l, err := config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{s.Name: configtest.Others(t, s)[0], "disk": "/some/where"}})
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if s.Name != "disk" && seen[l.Checksum()] != "" {
			t.Errorf("%s has the checksum of %s", s.Name, seen[l.Checksum()])
		}
		seen[l.Checksum()] = s.Name
	}
}

// A reader that no module has would never be restarted.
func TestReadersExist(t *testing.T) {
	known := []string{config.Process, config.Live}
	for _, m := range modules.All() {
		known = append(known, m.Name)
	}
	for _, s := range everySetting() {
		for _, reader := range s.ReadBy {
			if !slices.Contains(known, reader) {
				t.Errorf("%s is read by %q, which is none of %v", s.Name, reader, known)
			}
		}
		if len(s.ReadBy) == 0 {
			t.Errorf("%s is read by nobody", s.Name)
		}
	}
}
