// Go clients, told what to do by one JSON command a line: `program franz|sarama bootstrap`.
package main

import (
	"os"

	"pybroker/tests/clients/franz"
	"pybroker/tests/clients/viasarama"
)

func main() {
	map[string]func(string){"franz": franz.Converse, "sarama": viasarama.Converse}[os.Args[1]](os.Args[2])
}
