package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/explorer"
	"github.com/croft-edge/croft/explorer/api"
	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/pkg/workload"
)

func env(name string) []string { return []string{"CROFT_EXPLORER_" + name} }

func dbFlag() cli.Flag {
	return &cli.PathFlag{Name: "db", Value: "explorer.db", EnvVars: env("DB"), Usage: "the database `FILE`; made when it isn't there"}
}

func serveFlags() []cli.Flag {
	d := api.DefaultPolicy()
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8080", EnvVars: env("LISTEN"), Usage: "`HOST:PORT` to listen on; port 0 is any free one"},
		&cli.PathFlag{Name: "port-file", EnvVars: env("PORT_FILE"), Usage: "write the address to this `FILE` once it listens"},
		&cli.PathFlag{Name: "tls-cert", EnvVars: env("TLS_CERT"), Usage: "PEM `FILE` with the certificate and its chain; read again on SIGHUP"},
		&cli.PathFlag{Name: "tls-key", EnvVars: env("TLS_KEY"), Usage: "PEM `FILE` with the certificate's key"},
		&cli.BoolFlag{Name: "accept-signature-v1", EnvVars: env("ACCEPT_SIGNATURE_V1"), Usage: "accept reservations signed in version 1, which signs neither dates nor deletion"},
		&cli.BoolFlag{Name: "accept-unsigned-node-writes", EnvVars: env("ACCEPT_UNSIGNED_NODE_WRITES"), Usage: "accept registrations and results of nodes that don't sign them"},
		&cli.DurationFlag{Name: "max-duration", Value: d.MaxDuration, EnvVars: env("MAX_DURATION"), Usage: "longest duration of a reservation, and of a renewal from now"},
		&cli.DurationFlag{Name: "max-wait", Value: d.MaxWait, EnvVars: env("MAX_WAIT"), Usage: "longest wait of a long poll"},
		&cli.IntFlag{Name: "max-polls", Value: d.MaxPolls, EnvVars: env("MAX_POLLS"), Usage: "long polls that wait at a time"},
		&cli.IntFlag{Name: "max-tunnels", Value: d.MaxTunnels, EnvVars: env("MAX_TUNNELS"), Usage: "nodes that keep a tunnel open for their users; 0 is none"},
		&cli.Float64Flag{Name: "key-rate", Value: d.KeyRate, EnvVars: env("KEY_RATE"), Usage: "writes a second by one key; 0 is no limit"},
		&cli.IntFlag{Name: "key-burst", Value: d.KeyBurst, EnvVars: env("KEY_BURST"), Usage: "writes at once by one key"},
		&cli.Float64Flag{Name: "address-rate", Value: d.AddressRate, EnvVars: env("ADDRESS_RATE"), Usage: "requests a second from one address; 0 is no limit"},
		&cli.IntFlag{Name: "address-burst", Value: d.AddressBurst, EnvVars: env("ADDRESS_BURST"), Usage: "requests at once from one address"},
		&cli.Float64Flag{Name: "result-rate", Value: d.ResultRate, EnvVars: env("RESULT_RATE"), Usage: "results a second that one node has signed; 0 is no limit"},
		&cli.IntFlag{Name: "result-burst", Value: d.ResultBurst, EnvVars: env("RESULT_BURST"), Usage: "results at once that one node has signed"},
		&cli.Int64Flag{Name: "max-stored", Value: store.DefaultStored >> 20, EnvVars: env("MAX_STORED"), Usage: "reservations and results that are kept, in `MiB`, an eighth of it for results"},
		&cli.Uint64Flag{Name: "max-memory", Value: defaultMemory, EnvVars: env("MAX_MEMORY"), Usage: "memory that the explorer may take, in `MiB`; 0 is no ceiling"},
		&cli.StringFlag{Name: "log-level", Value: "info", EnvVars: env("LOG_LEVEL"), Usage: "debug, info, warn or error"},
	}
}

func policy(c *cli.Context) api.Policy {
	return api.Policy{
		AcceptSignatureV1: c.Bool("accept-signature-v1"), AcceptUnsignedNodeWrites: c.Bool("accept-unsigned-node-writes"),
		MaxDuration: c.Duration("max-duration"), MaxWait: c.Duration("max-wait"), MaxPolls: c.Int("max-polls"),
		MaxTunnels: c.Int("max-tunnels"),
		KeyRate:    c.Float64("key-rate"), KeyBurst: c.Int("key-burst"),
		AddressRate: c.Float64("address-rate"), AddressBurst: c.Int("address-burst"),
		ResultRate: c.Float64("result-rate"), ResultBurst: c.Int("result-burst"),
	}
}

func serve(c *cli.Context) error {
	if c.Args().Present() {
		return errors.Errorf("cannot understand %q: see explorer --help", c.Args().First())
	}
	level, err := zerolog.ParseLevel(c.String("log-level"))
	if err != nil {
		return errors.Errorf("cannot use log-level %q: it must be debug, info, warn or error", c.String("log-level"))
	}
	if most := c.Int64("max-stored"); most < 1 || most > 1<<30 {
		return errors.Errorf("cannot use max-stored %d: it must be MiB, from 1 to 1073741824", most)
	}
	memory := c.Uint64("max-memory")
	if memory != 0 && (memory < leastMemory || memory > 1<<30) {
		return errors.Errorf("cannot use max-memory %d: it must be MiB, from %d to 1073741824, or 0 for no ceiling", memory, leastMemory)
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	service, err := explorer.Open(c.Context, explorer.Config{
		Listen: c.String("listen"), DB: c.Path("db"), TLSCert: c.Path("tls-cert"), TLSKey: c.Path("tls-key"),
		PortFile: c.Path("port-file"), Policy: policy(c), Version: version, Log: log, Validate: workload.Validate,
		MaxStored: c.Int64("max-stored") << 20,
	})
	if err != nil {
		return err
	}
	// Only the owner of the database may use the control group named after it.
	seat := confine(c.Path("db"), ceiling(memory), log)
	defer seat.Leave()
	fmt.Fprintln(c.App.Writer, "listening on", service.URL())
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	go reloadOnHangup(ctx, service, log)
	return service.Run(ctx)
}

func reloadOnHangup(ctx context.Context, service *explorer.Service, log zerolog.Logger) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			err := service.Reload()
			log.Info().Err(err).Msg("read the TLS certificate again")
		}
	}
}
