package imagetest

import (
	_ "embed" // for the server's source

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

//go:embed server/main.go
var serverSource string

// ServerPath is the path of Server's program, ServerPort the port that it listens on.
const (
	ServerPath = "/bin/server"
	ServerPort = 8080
)

// Server is an image of a static HTTP server that answers with its host name and carries out requests:
// see the package server for these. args are its arguments.
func Server(args ...string) *Builder {
	return New().Program(ServerPath, serverSource).Dir("/tmp", 0o1777).Config(func(c *v1.Config) {
		c.Entrypoint = []string{ServerPath}
		c.Cmd = args
		c.Env = []string{"PATH=/bin"}
	})
}
