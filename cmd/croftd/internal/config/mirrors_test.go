package config_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

// Two mirrors of one place, and one that would mirror itself, are refused before the node is started with them.
func TestPlacesOfMirrorsAreTheirOwn(t *testing.T) {
	for text, want := range map[string]string{
		"s3://h.example/bkt, s3://h.example/bkt?keys=other":        `it must be places that are named once; s3://h.example/bkt?keys=other is the same place as s3://h.example/bkt`,
		"s3://h.example/bkt,s3://h.example/bkt?region=us-east-1":   "is the same place as",
		"s3://h.example/bkt/p,fs:///a,s3://H.example:443/bkt/p/":   "is the same place as s3://h.example/bkt/p",
		"fs:///backup,fs:///backup?mounted=true":                   "is the same place as fs:///backup",
		"fs:///state":                                              "it must be folders that are neither the store's, /state/store, nor below or above it; fs:///state would be a mirror of itself",
		"fs:///other,fs:///state/store/mirror":                     "fs:///state/store/mirror would be a mirror of itself",
		"fs:///":                                                   "fs:///",
		"fs:///state/mirror":                                       "",
		"fs:///state2, fs:///backup/state, s3://h.example/state":   "",
		"s3://h.example/bkt,s3://h.example/bkt/one,s3://o.net/bkt": "",
	} {
		_, faults := config.Check(config.From{Modules: module.Settings(modules.All()), File: file(t, "state-dir: /state\nmirrors: '"+text+"'\n")})
		if want == "" {
			if len(faults) > 0 {
				t.Errorf("%s: %v", text, faults)
			}
			continue
		}
		if len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), "cannot use mirrors = ") || !strings.Contains(faults[0].Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, faults, want)
		}
	}
	_, faults := config.Check(config.From{Modules: module.Settings(modules.All()), File: file(t, "state-dir: /var/lib/croft\nmirrors: [fs:///var]\n")})
	if len(faults) != 1 || !strings.Contains(faults[0].Error(), "fs:///var would be a mirror of itself") {
		t.Errorf("a folder above: %v", faults)
	}
}

// wrongPlaces are mirrors that operators write with a server's keys, which are "opensesame" here. All are refused.
func wrongPlaces() []string {
	return []string{
		"s3://AKIA:opensesame@host.example/bkt", "s3://opensesame@host.example/bkt", "s3://AKIA:open/opensesame@host.example/bkt", "s3://host.example/bkt/x:opensesame@y",
		"s3://AKIA/opensesame@host.example/bkt", "s3://AKIA:opensesame,more@host.example/bkt", "s3://AKIA:opensesame%zz@host.example/bkt", "s3://AKIA:opensesame",
		"s3://host.example/bkt?secret=opensesame", "s3://host.example/bkt?region=a&secret=opensesame&tls=true", "s3://host.example/bkt?access=AKIA&secret=open%zzopensesame",
		"s3://host.example/bkt#opensesame", "s3://AKIA:opensesame@host.example/bkt?secret=opensesame#opensesame", "s3://AKIA:opensesame?secret=opensesame", "fs://a:opensesame@/backup",
		"https://AKIA:opensesame@host.example/bkt", "s3://host.example/bkt?opensesame",
	}
}

// A mirror that is written with its keys is refused without showing them, wherever it is in the list, and so is what is shown of such a list.
func TestKeysOfMirrorsAreMasked(t *testing.T) {
	const secret = "opensesame"
	setting := config.Setting{}
	for _, s := range everySetting() {
		if s.Name == "mirrors" {
			setting = s
		}
	}
	for _, place := range wrongPlaces() {
		for _, text := range []string{place, "fs:///a, " + place, place + ",fs:///a", "fs:///a," + place + " ,s3://host.example/other"} {
			for _, from := range []config.From{
				{Modules: module.Settings(modules.All()), Flags: map[string]string{"mirrors": text}},
				{Modules: module.Settings(modules.All()), File: file(t, fmt.Sprintf("heartbeat: soon\nmirrors: %q\n", text))},
			} {
				_, faults := config.Check(from)
				told := fmt.Sprintf("%v %+v", faults, faults)
				if len(faults) == 0 || strings.Contains(told, secret) || !strings.Contains(told, "cannot use mirrors = ") {
					t.Errorf("%s: %v", text, faults)
				}
				if _, err := config.Load(config.From{Modules: from.Modules, Flags: map[string]string{"mirrors": text}}); err == nil || strings.Contains(fmt.Sprintf("%+v", err), secret) {
					t.Errorf("%s: %v", text, err)
				}
			}
			one := &config.Loaded{Values: []config.Value{{Setting: setting, Text: text}}}
			if shown := fmt.Sprint(one.Show()); strings.Contains(shown, secret) || strings.Contains(text, "fs:///a") && !strings.Contains(shown, "fs:///a") {
				t.Errorf("%s is shown as %s", text, shown)
			}
			var out bytes.Buffer
			if err := one.Print(&out, "yaml"); err != nil || strings.Contains(out.String(), secret) {
				t.Errorf("%s is printed as %s, %v", text, out.String(), err)
			}
			other := &config.Loaded{Values: []config.Value{{Setting: setting, Text: "fs:///b"}}}
			if told := fmt.Sprint(config.Diff(one, other), config.Diff(other, one)); strings.Contains(told, secret) {
				t.Errorf("%s differs as %s", text, told)
			}
		}
	}
}

// The faults name the item and say which are allowed; what isn't secret is shown as it is.
func TestFaultsOfMirrorsNameTheItem(t *testing.T) {
	for text, want := range map[string][]string{
		"fs:///a, s3://AKIA:opensesame@host.example/bkt": {`= "fs:///a, s3://AKIA:xxxxx@host.example/bkt"`, `"s3://AKIA:xxxxx@host.example/bkt" isn't one`, "keys=NAME"},
		"fs:///a,s3://host.example/bkt?secret=x&tls=no":  {`"s3://host.example/bkt?secret=xxxxx&tls=no" isn't one`},
		"s3://host:9x/bkt":       {`"s3://host:xxxxx" isn't one`},
		"s3://host:99999999/bkt": {`"s3://host:99999999/bkt" isn't one`},
		"fs:///a,b@c":            {"isn't one"},
	} {
		_, err := config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{"mirrors": text}})
		if err == nil || slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
			t.Errorf("%s: %v\nwant %q", text, err, want)
		}
	}
	for _, text := range []string{
		"fs:///a@b", "fs:///a?mounted=true", "s3://host.example:9000/bkt/p?region=a&path-style=true&tls=false&keys=farm", "redis://host:6379/1", "unix:///run/bus.sock?db=1",
		"SSD:/dev/a", "10.0.0.0/8", "[::1]:80", "plain#text?x=y", "/a//b?c=d", "host:80",
	} {
		if got := config.Masked(text); got != text {
			t.Errorf("%s is masked as %s", text, got)
		}
	}
}

// A digest that pins an image is no secret: it is shown, and another one is another setting.
func TestPinsAreShown(t *testing.T) {
	digest := strings.Repeat("a1", 32)
	for text, want := range map[string]string{
		"oci://registry.example/kubernetes/image@sha256:" + digest: "oci://registry.example/kubernetes/image@sha256:" + digest,
		"https://host.example/image.fl#sha256=" + digest:           "https://host.example/image.fl#sha256=" + digest,
		"https://host.example/image.fl#" + digest:                  "https://host.example/image.fl#xxxxx",
		"https://user:key/more@host.example@sha256:" + digest:      "https://xxxxx@sha256:" + digest,
	} {
		if got := config.Masked(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
