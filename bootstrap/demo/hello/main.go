// Command hello is all that is in the demo's image: a small web server that
// counts its visits in a file, and two tools to look around with.
//
//	hello serve     answers on port 80, counts in /data/visits, prints a line a visit
//	hello wait      does nothing until it is told to stop
//	hello get URL   prints the URL's content
//	hello cat FILE  prints a file
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const visits = "/data/visits"

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 1 && args[0] == "serve":
		err = serve()
	case len(args) == 1 && args[0] == "wait":
		wait()
	case len(args) == 2 && args[0] == "get":
		err = get(args[1])
	case len(args) == 2 && args[0] == "cat":
		err = cat(args[1])
	default:
		err = fmt.Errorf("usage: hello serve | wait | get URL | cat FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

// serve answers until it is told to stop.
func serve() error {
	var mu sync.Mutex
	server := http.Server{Addr: ":80", ReadHeaderTimeout: 10 * time.Second}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n, err := count()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Printf("visit %d from %s\n", n, r.RemoteAddr[:strings.LastIndexByte(r.RemoteAddr, ':')])
		host, _ := os.Hostname()
		fmt.Fprintf(w, "hello from %s, visit %d", host, n)
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	fmt.Println("serving")
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func wait() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}

// count adds one to the number in the file.
func count() (int, error) {
	text, err := os.ReadFile(visits)
	if err != nil && !os.IsNotExist(err) {
		return 0, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n + 1, os.WriteFile(visits, []byte(strconv.Itoa(n+1)), 0o644)
}

func get(url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func cat(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(os.Stdout, f)
	return err
}
