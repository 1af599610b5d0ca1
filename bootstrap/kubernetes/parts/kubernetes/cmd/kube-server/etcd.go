package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/croft-edge/croft/bootstrap/kubernetes/parts/kubernetes/internal/config"
)

// quota is how large etcd's database may become, in bytes: etcd's own default, spelled out. Over it etcd refuses writes.
const quota = 2 << 30

// slow is how long a request takes that etcd warns of. Of the defaults, one is 0 in embed's configuration, so that every
// request would be logged, and the other 100 ms, which are nothing special in a guest whose instructions are emulated.
const slow = time.Second

// etcd is the one member of the cluster's store. ready is closed when it serves.
type etcd struct {
	config config.Etcd
	ready  chan struct{}
}

func newEtcd(c config.Etcd) *etcd {
	return &etcd{config: c, ready: make(chan struct{})}
}

// wait waits until etcd serves.
func (e *etcd) wait(ctx context.Context) error {
	select {
	case <-e.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run serves until ctx is done, then closes the database.
func (e *etcd) run(ctx context.Context) error {
	if err := prepareFolders(ctx, e.config); err != nil {
		return err
	}
	server, err := embed.StartEtcd(etcdConfig(e.config))
	if err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
		close(e.ready)
	case <-ctx.Done():
		return nil
	case <-server.Server.StopNotify():
		return errors.New("stopped before it was ready")
	case err := <-server.Err():
		return err
	}
	looking := time.NewTicker(relieveEvery)
	defer looking.Stop()
	for {
		select {
		case <-looking.C:
			if err := relieve(ctx, server.Server); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "kube-server: etcd is full, and can't be relieved: %v\n", err)
			}
		case <-ctx.Done():
			return nil
		case <-server.Server.StopNotify():
			return errors.New("stopped by itself")
		case err := <-server.Err():
			return err
		}
	}
}

// relieveEvery is how often etcd's alarms are looked at.
const relieveEvery = time.Minute

// relieve lets etcd take writes again after it was full. Then it refuses the API server's own compaction too, which begins with a
// write; its alarm outlives restarts, and a machine has nobody who could end it by hand. The history goes, all objects stay.
func relieve(ctx context.Context, server *etcdserver.EtcdServer) error {
	alarms := server.Alarms()
	at := slices.IndexFunc(alarms, func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE })
	if at < 0 {
		return nil
	}
	_, err := server.Compact(ctx, &pb.CompactionRequest{Revision: server.KV().Rev(), Physical: true})
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) {
		return fmt.Errorf("cannot compact: %w", err)
	}
	if err := server.Defragment(); err != nil {
		return fmt.Errorf("cannot defragment: %w", err)
	}
	if size := server.Backend().Size(); size > server.Cfg.QuotaBackendBytes/10*9 {
		return fmt.Errorf("its objects alone have %d of %d bytes: delete some", size, server.Cfg.QuotaBackendBytes)
	}
	_, err = server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: alarms[at].MemberID, Alarm: pb.AlarmType_NOSPACE})
	return err
}

// prepareFolders makes the folders, which only root may enter, and refuses to go on beside a process that listens on
// the socket: etcd would take its place. The socket of a process that was killed is left to etcd, which replaces it.
func prepareFolders(ctx context.Context, c config.Etcd) error {
	for _, dir := range []string{c.Dir, c.SocketDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("cannot make a folder: %w", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("cannot close a folder to others: %w", err)
		}
	}
	if other, err := new(net.Dialer).DialContext(ctx, "unix", c.Socket()); err == nil {
		other.Close()
		return fmt.Errorf("another process listens on %s", c.Socket())
	}
	return nil
}

// etcdConfig is etcd's configuration: a single member that listens on its unix socket only. etcd wants advertised
// addresses of the form host:port; nobody uses them, as there are no peers and the API server has the socket's path.
// Everything else is etcd's default, fsync included; the API server compacts the history every five minutes itself.
func etcdConfig(c config.Etcd) *embed.Config {
	e := embed.NewConfig()
	e.Name = "croft"
	e.Dir = c.Dir
	e.ListenClientUrls = []url.URL{{Scheme: "unix", Path: c.Socket()}}
	e.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	e.ListenPeerUrls = nil
	e.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	e.QuotaBackendBytes = quota
	e.EnableGRPCGateway = false
	e.WarningApplyDuration, e.WarningUnaryRequestDuration = slow, slow
	e.LogLevel = "warn"
	e.LogOutputs = []string{embed.StdErrLogOutput}
	return e
}
