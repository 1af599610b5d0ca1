package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	now, next := write("now", "heartbeat: 60s\nbus: redis://:geheim@h:1\n"), write("next", "heartbeat: 1m\nbus: redis://:geheim@h:1\ndns-servers: [192.0.2.53]\nfarm-id: 7\n")
	wrong := write("wrong", "heartbeat: soon\nhartbeat: 1s\nbus: 'redis://:geheim@h:1/%zz'\n")
	for _, c := range []struct {
		name   string
		args   []string
		status int
		out    []string
		errs   string
	}{
		{"the same", []string{now, "--against", now}, 0, []string{now + ": no faults, checksum ", "the same settings as " + now}, ""},
		{"another", []string{next, "--against", now}, 0, []string{
			`dns-servers: "192.0.2.53", was ""`, "modules that a reload restarts: network\n", "needs a restart of croftd: farm-id\n",
		}, ""},
		{"flags first", []string{"--against=" + now, next}, 0, []string{"restarts: network\n"}, ""},
		{"wrong", []string{wrong, "--against", now}, 2, []string{
			`cannot use "hartbeat" (from ` + wrong + " line 2): no such setting", `cannot use heartbeat = "soon" (from ` + wrong + " line 1): it must be a duration",
		}, "croftd: cannot use " + wrong + ": 3 faults\n"},
		{"against a wrong one", []string{next, "--against", wrong}, 0, []string{"no faults", "not compared: cannot use"}, ""},
		{"against nothing", []string{next, "--against", filepath.Join(dir, "none")}, 0, []string{"no faults", "not compared: cannot read"}, ""},
		{"missing", []string{filepath.Join(dir, "none")}, 2, []string{"cannot read the configuration"}, "1 faults"},
		{"a folder", []string{dir}, 2, []string{"it is a folder, it must be a regular file"}, "1 faults"},
		{"no file", nil, 2, nil, "cannot check: a FILE is wanted"},
		{"two files", []string{now, next}, 2, nil, "is too much"},
		{"no such format", []string{now, "-o", "xml"}, 2, nil, `as "xml": it must be text or json`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errs := croftd(append([]string{"config", "check"}, c.args...)...)
			if status != c.status || !strings.Contains(errs, c.errs) {
				t.Errorf("status %d, want %d\n%s", status, c.status, errs)
			}
			for _, want := range c.out {
				if !strings.Contains(out, want) {
					t.Errorf("%q isn't in\n%s", want, out)
				}
			}
			if strings.Contains(out+errs, "geheim") {
				t.Errorf("it shows a password:\n%s%s", out, errs)
			}
		})
	}
	_, out, _ := croftd("config", "check", next, "--against", now, "-o", "json")
	var got struct {
		Faults  []string
		Changes struct {
			Restart      []string
			NeedsRestart []string `json:"needs_restart"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Faults == nil || len(got.Changes.Restart) != 1 || len(got.Changes.NeedsRestart) != 1 {
		t.Errorf("%+v, %v of %s", got, err, out)
	}
}
