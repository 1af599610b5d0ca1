package containerd

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	versions "github.com/containerd/containerd/api/services/version/v1"
	"github.com/pkg/errors"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/croft-edge/croft/pkg/node"
)

// fake answers on a socket what version it is, and nothing else.
type fake struct {
	versions.UnimplementedVersionServer
	version string
}

func (f fake) Version(context.Context, *emptypb.Empty) (*versions.VersionResponse, error) {
	return &versions.VersionResponse{Version: f.version}, nil
}

func serveFake(t *testing.T, socket, version string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	versions.RegisterVersionServer(server, fake{version: version})
	go server.Serve(l)
	t.Cleanup(server.Stop)
}

func folders(t *testing.T) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Config{RunDir: dir + "/run", StateDir: dir + "/state", Within: 20 * time.Second, system: dir + "/system.sock"}
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		"1.6.20~ds1": true, "v1.6.0": true, "1.7.35": true, "v2.4.2": true, "2.0.0-rc.1": true, "1.6": true, "1.10.1": true,
		"1.5.18": false, "v1.4.13~ds1": false, "0.9.1": false, "": false, "unknown": false, "1": false,
	} {
		err := checkVersion("it", version)
		if (err == nil) != ok || err != nil && !errors.Is(err, node.Refused) {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestOldVersionIsRefused(t *testing.T) {
	c := folders(t)
	old := filepath.Join(filepath.Dir(c.RunDir), "containerd")
	script := "#!/bin/sh\necho containerd github.com/containerd/containerd 1.4.13~ds1 1.4.13~ds1-1\n"
	if err := os.WriteFile(old, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Own, c.Binary = true, old
	_, err := Open(t.Context(), c)
	if !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "1.4.13") || !strings.Contains(err.Error(), "1.6") {
		t.Errorf("an old program: %v", err)
	}
	c.Binary = filepath.Join(c.RunDir, "none")
	if _, err := Open(t.Context(), c); !errors.Is(err, node.Refused) {
		t.Errorf("no program: %v", err)
	}

	c = folders(t)
	c.Address = c.system
	serveFake(t, c.Address, "1.5.2")
	if _, err := Open(t.Context(), c); !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "1.5.2") {
		t.Errorf("an old one at the address: %v", err)
	}
}

func TestTheChoiceStays(t *testing.T) {
	for _, c := range []struct{ version, want string }{{"1.6.1", "system"}, {"1.5.0", "own"}, {"", "own"}} {
		t.Run(fmt.Sprintf("system's %q", c.version), func(t *testing.T) {
			config := folders(t)
			if c.version != "" {
				serveFake(t, config.system, c.version)
			}
			address, own, err := config.withDefaults().choose(t.Context())
			if err != nil || own != (c.want == "own") || own != (address == config.socket()) {
				t.Fatalf("%s %t %v, want %s", address, own, err, c.want)
			}
			// Whatever comes or goes later.
			config.system += "2"
			serveFake(t, config.system, "2.0.0")
			if _, again, err := config.withDefaults().choose(t.Context()); err != nil || again != own {
				t.Errorf("own %t (%v), want %t as before", again, err, own)
			}
			if err := os.WriteFile(config.chosen(), []byte("junk"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, again, err := config.withDefaults().choose(t.Context()); err != nil || again {
				t.Errorf("own %t (%v): a damaged choice is made anew", again, err)
			}
		})
	}
}

func TestInvalidConfig(t *testing.T) {
	good := Config{RunDir: "/r", StateDir: "/s"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Config){
		"RunDir":  func(c *Config) { c.RunDir = "r" },
		"Address": func(c *Config) { c.Address = "socket" },
		"Own":     func(c *Config) { c.Address, c.Own = "/socket", true },
		"Prefix":  func(c *Config) { c.Prefix = "a b" },
		"shorter": func(c *Config) { c.RunDir = "/" + strings.Repeat("r", 100) },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	c := folders(t)
	if err := c.makeFolders(); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(c.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for i := range 300 {
		fmt.Fprintf(out, "line %03d\n", i)
		c.boundLog(900)
	}
	old, err := os.ReadFile(c.log() + ".1")
	if err != nil || len(old) > 900 {
		t.Fatalf("%d bytes in the old log (%v)", len(old), err)
	}
	now, err := os.ReadFile(c.log())
	if err != nil || len(now) > 909 || !strings.HasSuffix(string(old)+string(now), "line 299\n") || strings.Contains(string(now), "\x00") {
		t.Errorf("the log ends in %q (%v)", now, err)
	}
}
