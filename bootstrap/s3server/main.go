// Command s3server serves a folder by the S3 protocol on a loopback address, for tests and the demo: a real server, which
// keeps what it is given. It is a Go module of its own, so that its dependencies aren't croft's.
//
// It prints "listening on HOST:PORT" on its standard output once it answers. The credentials are
// S3SERVER_ACCESS and S3SERVER_SECRET of the environment. It ends with SIGTERM, or when its standard input ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// most is how many connections and requests are served at the same time.
const most = 1024

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "s3server:", err)
		os.Exit(1)
	}
}

func run() error {
	folder := flag.String("folder", "", "the folder that keeps the objects; made if it is missing")
	address := flag.String("address", "127.0.0.1:0", "the loopback address to listen on, HOST:PORT; port 0 is any")
	bucket := flag.String("bucket", "", "a bucket that is made if it is missing")
	flag.Parse()
	access, secret := os.Getenv("S3SERVER_ACCESS"), os.Getenv("S3SERVER_SECRET")
	if *folder == "" || access == "" || secret == "" {
		return errors.New("cannot serve: -folder, S3SERVER_ACCESS and S3SERVER_SECRET must be given")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	objects, attributes := filepath.Join(*folder, "objects"), filepath.Join(*folder, "attributes")
	for _, dir := range []string{objects, attributes, filepath.Join(objects, *bucket)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return serve(ctx, *address, objects, attributes, [2]string{access, secret})
}

// serve runs the server on a socket of its own, and carries the connections of the address there: the server can't say
// which port it got.
func serve(ctx context.Context, address, objects, attributes string, keys [2]string) error {
	store, err := meta.NewSideCar(attributes)
	if err != nil {
		return err
	}
	backend, err := posix.New(objects, store, posix.PosixOpts{SideCarDir: attributes, ForceNoTmpFile: true})
	if err != nil {
		return err
	}
	front, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if at, ok := front.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return fmt.Errorf("cannot listen on %s: it must be a loopback address", front.Addr())
	}
	socket := fmt.Sprintf("@croft-s3server-%d", os.Getpid())
	failed := make(chan error, 1)
	go func() {
		failed <- embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
			RootUserAccess: keys[0], RootUserSecret: keys[1], Ports: []string{socket},
			MaxConnections: most, MaxRequests: most, MultipartMaxParts: 10000, KeepAlive: true, Quiet: true,
		})
		_ = front.Close()
	}()
	go func() {
		<-ctx.Done()
		_ = front.Close()
	}()
	if err := answers(ctx, socket, failed); err != nil {
		return err
	}
	fmt.Println("listening on", front.Addr())
	for {
		conn, err := front.Accept()
		if err != nil {
			return <-failed
		}
		go carry(conn, socket)
	}
}

// answers waits until the server listens on its socket.
func answers(ctx context.Context, socket string, failed chan error) error {
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-failed:
			return fmt.Errorf("cannot start the server: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// carry copies a connection to the server's socket and back.
func carry(front net.Conn, socket string) {
	defer front.Close()
	back, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer back.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(back, front)
		_ = back.(*net.UnixConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(front, back)
		_ = front.(*net.TCPConn).CloseWrite()
	})
	both.Wait()
}
