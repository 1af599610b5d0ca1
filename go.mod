module github.com/croft-edge/croft

go 1.26

require (
	github.com/gowebpki/jcs v1.0.1 // indirect
	github.com/mr-tron/base58 v1.2.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)
