package node

//go:generate go run ../bus/stubgen
