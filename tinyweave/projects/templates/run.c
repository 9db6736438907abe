@{arena}@{streams}static int run_@{name}(printer print)
{
    static const @{package}_profile_row rows[] = {@{rows}
    };
    int wrong = 0;
    if (@{name}_init(&@{memory}) != 0) {
        print("@{name}_init failed\n");
        return 1;
    }
    for (int32_t sample = 0; sample < @{NAME}_SAMPLES; ++sample) {
@{feeds}
        @{package}_profile_begin();
        if (@{name}_invoke(&@{memory}, @{io}) != 0) {
            print("@{name}_invoke failed\n");
            return 1;
        }
        @{package}_profile_print(print, "@{name}", rows, @{count});
@{checks}
        print("@{name} sample ");
        print_integer(print, sample);
@{shown}
        print("\n");
    }
    return wrong;
}

