package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

func TestContainersByDefault(t *testing.T) {
	l, err := config.Load(config.From{Modules: module.Settings(modules.All())})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Containers{
		MaxImage: 10 << 30, UserImages: 20 << 30, ImageFull: 80, ImageUnused: 14 * 24 * time.Hour,
		Layer: 2 << 30, PIDs: 4096, LogSize: 10 << 20, LogFiles: 2, Cgroup: "croft",
	}
	if !reflect.DeepEqual(l.Containers, want) {
		t.Errorf("got  %+v\nwant %+v", l.Containers, want)
	}
}

func TestContainersSettings(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"containerd", "/run/containerd/containerd.sock", ""},
		{"containerd", "own", ""},
		{"containerd", "containerd.sock", "the absolute path of a socket, own, or empty"},
		{"containerd-binary", "containerd", "an absolute path"},
		{"init-binary", "/opt/croft/croft-init", ""},
		{"zdb-binary", "/opt/croft/zdb", ""},
		{"zdb-binary", "zdb", "an absolute path"},
		{"image-paths", "/srv/images,/opt/images/", ""},
		{"image-paths", "images", `"images" isn't one`},
		{"image-paths", "/srv/..", "folders other than /"},
		{"image-plain-http", "registry.example.org, 192.168.7.9:5000,[fd00::1]:5000", ""},
		{"image-plain-http", "http://registry.example.org", `"http://registry.example.org" isn't one`},
		{"image-plain-http", "registry:0", `"registry:0" isn't one`},
		{"image-plain-http", "*", `"*" isn't one`},
		{"max-image-size", "0", "at least 1MiB"},
		{"max-user-images", "0", "at least 1MiB"},
		{"image-full", "0", "1 to 100"},
		{"image-full", "101", "1 to 100"},
		{"image-unused", "0s", "a duration above 0"},
		{"container-layer", "1MiB", "at least 16MiB"},
		{"container-layer", "lots", "at least 16MiB"},
		{"container-pids", "0", "16 to 4194304"},
		{"container-without", "read_only, non_root", ""},
		{"container-without", "root", `"root" isn't one`},
		{"container-cgroup", "nodes/croft-1", ""},
		{"container-cgroup", "/croft", "not before the first"},
		{"container-cgroup", "croft/../..", "not before the first"},
		{"container-cgroup", "", "not before the first"},
		{"container-send-rate", "63KiB", "0 or 64KiB to 1TiB"},
		{"container-receive-rate", "2TiB", "0 or 64KiB to 1TiB"},
		{"log-size", "64KiB", "at least 128KiB"},
		{"log-files", "1", "2 to 1000"},
	} {
		_, err := config.Load(config.From{Modules: module.Settings(modules.All()), File: config.DefaultFile, Flags: map[string]string{c.name: c.value}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s = %s: %v", c.name, c.value, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name)):
			t.Errorf("%s = %s: %v, want the setting and %q", c.name, c.value, err, c.want)
		}
	}
}

func TestWhichContainerd(t *testing.T) {
	for value, want := range map[string]string{"": " false", "own": " true", "/run/./c.sock": "/run/c.sock false"} {
		l, err := config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{"containerd": value}})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(l.Containers.Containerd, " ", l.Containers.OwnContainerd); got != want {
			t.Errorf("%q means %q, want %q", value, got, want)
		}
	}
}
