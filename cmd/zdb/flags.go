package main

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/zdb"
	"github.com/croft-edge/croft/zdb/loop"
)

const (
	defaultPort = 9900
	mostPort    = 65535
	defaultIdle = time.Hour
)

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{Name: "data", Value: "zdb-data", Usage: "the `FOLDER` of the data, made when it isn't there"},
		&cli.PathFlag{Name: "index", Usage: "the `FOLDER` of the index; by default the data's"},
		&cli.StringFlag{Name: "mode", Usage: "mode of new namespaces: user (the client chooses the key) or seq (the server assigns it); without this flag user, and NSSET may change it"},
		&cli.StringFlag{Name: "listen", Value: "::", Usage: "`ADDRESS` to listen on; :: takes IPv4 too"},
		&cli.IntFlag{Name: "port", Value: defaultPort, Usage: "TCP `PORT` to listen on; 0 is any free one"},
		&cli.BoolFlag{Name: "dualnet", Usage: "accepted for compatibility with 0-db: with --listen :: IPv4 is served too"},
		&cli.BoolFlag{Name: "no-listen", Usage: "no TCP listener, only those of --socket, --admin-socket and --handover"},
		&cli.PathFlag{Name: "socket", Usage: "listen on the unix socket `PATH` too, with the rights of TCP"},
		&cli.PathFlag{Name: "admin-socket", Usage: "listen on the unix socket `PATH`, for admins only: other clients then need --admin's password to be admins and to write to default"},
		&cli.PathFlag{Name: "handover", Usage: "take over listening sockets that are passed on the unix socket `PATH`"},
		&cli.StringFlag{Name: "admin", EnvVars: []string{"ZDB_ADMIN"}, Usage: "`PASSWORD` of admins; better set in the environment, which other users can't read"},
		&cli.BoolFlag{Name: "protect", Usage: "allow writes to default only after SELECT with the admin's password"},
		&cli.BoolFlag{Name: "sync", Usage: "answer a write once it is synced to disk"},
		&cli.StringFlag{Name: "datasize", Value: "256MiB", Usage: "`BYTES` after which 0-db would go on to the next file"},
		&cli.StringFlag{Name: "maxsize", Value: "0", Usage: "`BYTES` of values that default may have; 0 is no limit"},
		&cli.PathFlag{Name: "hook", Usage: "`PROGRAM` that is run at events"},
		&cli.StringFlag{Name: "compat", Value: zdb.CompatV2, Usage: "which 0-db to be like: v1 (of March 2020) or v2 (2.0.7)"},
		&cli.StringFlag{Name: "metrics", Usage: "serve /metrics for Prometheus on `HOST:PORT`"},
		&cli.IntFlag{Name: "max-connections", Value: int(loop.Connections.Total), Usage: "clients at a time, besides admins; at most as many as the file descriptors allow"},
		&cli.IntFlag{Name: "max-connections-per-source", Value: int(loop.Connections.Each), Usage: "clients at a time that gave no password, from one IPv4 address or one /64 of IPv6"},
		&cli.IntFlag{Name: "max-namespaces", Value: zdb.DefaultMaxNamespaces, Usage: "maximum number of namespaces, default included"},
		&cli.DurationFlag{Name: "idle", Value: defaultIdle, Usage: "close connections that are idle for so long; 0 is never"},
		&cli.StringFlag{Name: "memory", Value: "0", Usage: "`BYTES` that the indexes in memory may take; 0 is no limit"},
		&cli.StringFlag{Name: "max-buffers", Value: "256MiB", Usage: "`BYTES` that the buffers of all connections may take"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "debug, info, warn or error"},
		&cli.BoolFlag{Name: "debug-commands", Usage: "offer KSCAN and STOP, as debug builds of 0-db do"},
	}
}

// settings are the values of the flags.
type settings struct {
	server zdb.Config
	loop   loop.Config
	level  zerolog.Level

	host                  string
	port                  int
	silent                bool
	socket, admin         string
	handover, metricsAddr string
}

func read(c *cli.Context) (settings, error) {
	if c.Args().Present() {
		return settings{}, errors.Errorf("cannot understand %q: see zdb --help", c.Args().First())
	}
	s := settings{
		server: zdb.Config{
			Data: c.Path("data"), Index: c.Path("index"), Mode: c.String("mode"), Compat: c.String("compat"),
			Admin: c.String("admin"), Protect: c.Bool("protect"), AdminSocket: c.Path("admin-socket") != "",
			Sync: c.Bool("sync"), Hook: c.Path("hook"), Debug: c.Bool("debug-commands"), Version: version,
			MaxNamespaces: c.Int("max-namespaces"),
		},
		loop: loop.Config{
			MaxConnections: c.Int("max-connections"), MaxSource: c.Int("max-connections-per-source"), Idle: c.Duration("idle"),
			MaxArguments: zdb.Arguments(c.String("compat")),
		},
		host: c.String("listen"), port: c.Int("port"), silent: c.Bool("no-listen"),
		socket: c.Path("socket"), admin: c.Path("admin-socket"), handover: c.Path("handover"), metricsAddr: c.String("metrics"),
	}
	var buffers uint64
	for _, f := range []struct {
		name string
		to   *uint64
	}{{"datasize", &s.server.DataSize}, {"maxsize", &s.server.MaxSize}, {"memory", &s.server.Memory}, {"max-buffers", &buffers}} {
		n, err := size(c.String(f.name))
		if err != nil {
			return s, errors.Errorf("cannot use --%s %q: it must be %v", f.name, c.String(f.name), err)
		}
		*f.to = n
	}
	s.loop.MaxBuffers = int64(min(buffers, 1<<62))
	var err error
	if s.level, err = zerolog.ParseLevel(c.String("log-level")); err != nil || c.String("log-level") == "" {
		return s, errors.Errorf("cannot use --log-level %q: it must be debug, info, warn or error", c.String("log-level"))
	}
	if s.port < 0 || s.port > mostPort {
		return s, errors.Errorf("cannot use --port %d: it must be from 0 to %d", s.port, mostPort)
	}
	if s.silent && s.socket == "" && s.admin == "" && s.handover == "" {
		return s, errors.New("cannot serve without a listener: --no-listen needs --socket, --admin-socket or --handover")
	}
	return s, nil
}

// size parses a number of bytes, such as 1048576, 1MiB or 1M. Its error says which values are allowed.
func size(text string) (uint64, error) {
	digits := strings.TrimRight(text, "KMGTIBkmgtib")
	n, err := strconv.ParseUint(digits, 10, 64)
	shift, known := map[string]int{"": 0, "B": 0, "K": 10, "KIB": 10, "M": 20, "MIB": 20, "G": 30, "GIB": 30, "T": 40, "TIB": 40}[strings.ToUpper(text[len(digits):])]
	if err != nil || !known || bits.Len64(n)+shift > 63 {
		return 0, errors.New("a number of bytes below 2^63, such as 1073741824 or 1GiB")
	}
	return n << shift, nil
}
