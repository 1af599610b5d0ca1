package project_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

// TestMistakes: each has its line, its field, and the allowed values.
func TestMistakes(t *testing.T) {
	head := "project: p\nnode: NODE1\nduration: 1d\nworkloads:\n"
	for _, c := range []struct {
		file string
		line int
		says []string
	}{
		{"", 0, []string{"it is empty", "project and workloads"}},
		{"project: p", 1, []string{"workloads: is missing"}},
		{"workloads: {}", 1, []string{"project: is missing", "small letter"}},
		{"- a\n- b", 1, []string{"is a list", "must be a mapping"}},
		{"project: p\n---\nproject: q", 2, []string{"second document"}},
		{"project: My Blog\nworkloads: {}", 1, []string{`"My Blog"`, "small letter"}},
		{"project: 7\nworkloads: {}", 1, []string{`"7"`, "must be text"}},
		{"project: p\nproject: q\nworkloads: {}", 2, []string{"project: is given twice"}},
		{"project: p\nnod: x\nworkloads: {}", 2, []string{"nod: is an unknown key", "allowed are duration, networks, node, project, workloads"}},
		{"project: p\nnode: x0x\nworkloads: {}", 2, []string{`node: is "x0x"`, "a node's ID"}},
		{"project: p\nduration: 30\nworkloads: {}", 2, []string{`duration: is "30"`, "30d"}},
		{"project: p\nduration: -1d\nworkloads: {}", 2, []string{`"-1d"`, "more than 0"}},
		{"project: p\nworkloads: [a]", 2, []string{"workloads: is a list", "must be a mapping"}},
		{"project: &a p\nworkloads: {}\n", 0, nil},
		{head + "  7-1:\n    volume: {size: 1}", 5, []string{`"7-1" isn't a name`, "small letter"}},
		{head + "  Data:\n    volume: {size: 1}", 5, []string{`"Data" isn't a name`}},
		{head + "  data:\n", 5, []string{"workloads.data: is empty", "must be a mapping"}},
		{head + "  data: {}", 5, []string{"has no type", "volume", "kubernetes"}},
		{head + "  data:\n    volumes: {size: 1}", 6, []string{"workloads.data.volumes: is an unknown key", "volume, zdb"}},
		{head + "  data:\n    volume: {size: 1, type: SSD}\n    zdb: {size: 1}", 7, []string{"it is a volume already"}},
		{head + "  data:\n    volume: {siz: 1}", 6, []string{"workloads.data.volume.siz: is an unknown key; allowed are size, type"}},
		{head + "  data:\n    volume: {size: big}", 6, []string{`workloads.data.volume.size: is "big", must be a whole number`}},
		{head + "  data:\n    volume: {size: 1.5}", 6, []string{"must be a whole number"}},
		{head + "  data:\n    volume: {size: \"1\"}", 6, []string{"must be a whole number"}},
		{head + "  data:\n    volume: {size: 99999999999999999999}", 6, []string{"must be a whole number"}},
		{head + "  data:\n    volume: {size: [1]}", 6, []string{"is a list"}},
		{head + "  data:\n    volume: {type: 7}", 6, []string{"must be text"}},
		{head + "  data:\n    volume: [size]", 6, []string{"must be a mapping"}},
		{head + "  data:\n    zdb: {public: yes}", 6, []string{`is "yes", must be true or false`}},
		{head + "  data:\n    node: here\n    volume: {size: 1}", 6, []string{"workloads.data.node", "a node's ID"}},
		{head + "  data:\n    duration: soon\n    volume: {size: 1}", 6, []string{"workloads.data.duration"}},
		{head + "  web:\n    container:\n      mounts:\n        - {volume: data, mountpoint: /d}", 8,
			[]string{"workloads.web.container.mounts[0].volume", `no workload "data"`, "volume_id: N-M"}},
		{head + "  web:\n    container:\n      mounts:\n        - {volume: web, mountpoint: /d}", 8, []string{`"web" is a container, must be a volume`}},
		{head + "  web:\n    container:\n      mounts:\n        - {volume: web, volume_id: 1-1, mountpoint: /d}", 8, []string{"means the same as volume"}},
		{head + "  web:\n    container:\n      mounts: [{volume: data, volume_hash: ab, mountpoint: /d}]\n  data:\n    volume: {size: 1}", 7,
			[]string{"mounts[0].volume: is a workload of this file, whose hash croft writes itself"}},
		{head + "  web:\n    container:\n      network: {name: net, network_hash: ab}\n  net:\n    network: {name: net}", 7, []string{"network.name: is a workload of this file"}},
		{head + "  web:\n    container:\n      mounts: {volume: data}", 7, []string{"must be a list"}},
		{head + "  web:\n    container:\n      network: {name: net}", 7, []string{`no workload "net"`, "network_id: NAME"}},
		{head + "  web:\n    container:\n      network: {ips: [10.0.0]}", 7, []string{`network.ips[0]: is "10.0.0", must be an IP address`}},
		{head + "  web:\n    container:\n      env: {A: [1]}", 7, []string{"env.A", "must be text"}},
		{head + "  web:\n    container:\n      env: {A: x, A: y}", 7, []string{"env.A: is given twice"}},
		{head + "  web:\n    container:\n      mounts: [{volume: data, mountpoint: /d}]\n  data:\n    node: NODE2\n    volume: {size: 1}", 7,
			[]string{"must be on the same node"}},
		{head + "  a:\n    after: [b]\n    volume: {size: 1}\n  b:\n    after: [c]\n    volume: {size: 1}\n  c:\n    after: [a]\n    volume: {size: 1}", 12,
			[]string{"wait for each other: a → b → c → a"}},
		{head + "  a:\n    after: [a]\n    volume: {size: 1}", 6, []string{"a → a"}},
		{head + "  a:\n    after: [x]\n    volume: {size: 1}", 6, []string{`no workload "x"`}},
		{head + "  a:\n    after: x\n    volume: {size: 1}", 6, []string{"must be a list"}},
		{head + "  a: &a\n    volume: {size: 1}\n  b: *a", 7, []string{"aliases aren't allowed"}},
		{head + "  a:\n    <<: {volume: {size: 1}}", 6, []string{"must be plain text"}},
		{"project: p\nduration: 1d\nworkloads:\n  a:\n    volume: {size: 1}", 4, []string{"workloads.a.node: is missing"}},
		{"project: p\nnode: NODE1\nworkloads:\n  a:\n    volume: {size: 1}", 4, []string{"workloads.a.duration: is missing"}},
		{"project: [", 0, []string{"line 1"}},
	} {
		_, err := project.Parse("croft.yaml", withNodes(t, c.file))
		if c.says == nil {
			if err != nil {
				t.Errorf("%q: %v, want no error", c.file, err)
			}
			continue
		}
		var e *project.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v, want a project.Error", c.file, err)
			continue
		}
		if e.Line != c.line || !strings.HasPrefix(e.Error(), "cannot read croft.yaml") {
			t.Errorf("%q: line %d, want %d: %v", c.file, e.Line, c.line, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q: %q doesn't say %q", c.file, err, s)
			}
		}
	}
}

// TestParseNeverPanics: whatever is in the file, there is a project or an error.
func TestParseNeverPanics(t *testing.T) {
	words := []string{"project", "node", "duration", "workloads", "volume", "container", "zdb", "network", "kubernetes", "debug", "size", "mounts", "net_resources",
		"secret", "env:A", "password", "after", "1d", "7", "data", ": ", "\n", "  ", "- ", "{", "}", "[", "]", "&a", "*a", "<<", "!!binary x", "null", "~", "ip_range", "10.1.0.0/16", "nodes", "subnet", "10.1.1.0/24", "listen_port", "private_key", "access", "via", "name", "public_key", "\"", "#", ","}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 40).Draw(t, "words"), "")
		head := rapid.SampledFrom([]string{"workloads:\n  a:\n    ", "duration: 1d\nnetworks:\n  a:\n    ", "duration: 1d\nnetworks:\n  a:\n    ip_range: 10.1.0.0/16\n    "}).Draw(t, "head")
		f, err := project.Parse("f", []byte("project: p\n"+head+text))
		if (f == nil) == (err == nil) {
			t.Fatalf("got %v and %v", f, err)
		}
	})
}
